#include "tests/cuda/device_data.cuh"

#include "tests/catch.hpp"

using namespace rigcast;

TEST_CASE("A failed call of the CUDA runtime says itself, the reason and the place", "[cuda]") {
  try {
    RIGCAST_CUDA_CALL(cudaErrorMemoryAllocation);
    FAIL("nothing was thrown");
  } catch (const engine::CudaFailure& e) {
    const std::string text = e.what();
    CHECK(e.is_out_of_memory());
    CHECK(text.find("out of memory") != std::string::npos);
    CHECK(text.find("device_data_test.cpp:") != std::string::npos);
  }
}

TEST_CASE("What is sent to the GPU comes back", "[cuda][gpu]") {
  const std::vector<float> values = {1, 2, 3};
  CHECK(fixtures::OnDevice<float>(values).read() == values);
}
