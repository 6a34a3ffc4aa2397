#include "engine/backends/cuda/check/gpu_check.hpp"

#include <algorithm>

#include "engine/backends/cuda/check/checked_models.hpp"
#include "engine/cuda/device_facts.cuh"
#include "engine/kernels/cuda/batch/small_batch_gemm.cuh"
#include "tests/catch.hpp"
#include "tests/cuda/executor/whole_models.hpp"
#include "tests/folder.hpp"

using namespace rigcast;
using namespace rigcast::engine;
using namespace rigcast::engine::fixtures;

TEST_CASE("What kernels can do follows from the code that runs", "[cuda][gpu]") {
  const DeviceFacts& gpu = device_facts();
  CHECK(gpu.compiled_for >= 75);
  CHECK(gpu.compiled_for <= gpu.capability);
  CHECK(cuda::has_small_batch_gemm() == (gpu.compiled_for >= 80));
  CHECK(gpu.block_shared_bytes >= 64 << 10);
  CHECK(gpu_unsupported_reason(0) == std::nullopt);
}

TEST_CASE("Heads that kernels do not take are refused before anything is uploaded", "[cuda][gpu]") {
  TinyTraits t;
  t.layers = 1;
  t.head_dim = 34;
  const auto made = make_cuda_executor(std::make_shared<const Model>(make_tiny_model(t).model), {});
  REQUIRE_FALSE(made.ok());
  CHECK(made.error().kind == ErrorKind::kBadInput);
  CHECK(made.error().text().find("heads of 34") != std::string::npos);
}

TEST_CASE("This GPU computes what the CPU does, which is asked once", "[cuda][gpu]") {
  const test::Folder folder;
  const auto file = folder.path() / "cache" / "gpu-check";
  const auto lines = [&] {
    const std::string text = test::read(file);
    return std::count(text.begin(), text.end(), '\n');
  };
  const auto general = checked_models();
  REQUIRE(general);
  const CheckedModel& plain = general->front();
  auto error = check_gpu(file, plain.spec, plain.table);
  INFO((error ? error->text() : ""));
  CHECK_FALSE(error);
  CHECK(lines() == 1);
  CHECK_FALSE(check_gpu(file, plain.spec, plain.table));
  CHECK(lines() == 1);
  CHECK_FALSE(check_gpu({}, plain.spec, plain.table));  // nowhere to note it

  ModelSpec gemma = plain.spec;
  gemma.architecture = "gemma2";
  gemma.norms_per_layer = 4;
  const auto table = make_tensor_table(gemma, *QuantMix::from_name("Q4_K_M"));
  REQUIRE(table);
  error = check_gpu(file, gemma, *table);
  INFO((error ? error->text() : ""));
  CHECK_FALSE(error);
  CHECK(lines() == 2);
}
