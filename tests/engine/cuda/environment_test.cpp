#include "engine/cuda/environment.hpp"

#include <cstdlib>

#include "tests/catch.hpp"

TEST_CASE("CUDA does not see that launches are to be waited for", "[engine][cuda]") {
  for (const char* value : {"1", "0", ""}) {
    ::setenv("CUDA_LAUNCH_BLOCKING", value, 1);
    rigcast::engine::ignore_launch_blocking();
    CHECK(std::getenv("CUDA_LAUNCH_BLOCKING") == nullptr);
  }
  rigcast::engine::ignore_launch_blocking();  // where there is nothing
}
