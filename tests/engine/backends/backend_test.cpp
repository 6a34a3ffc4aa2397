#include "engine/backends/backend.hpp"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/catch.hpp"
#include "tests/engine/toy_backend.hpp"

using namespace rigcast;
using namespace rigcast::engine;
using rigcast::engine::fixtures::toy_backend;

TEST_CASE("A backend that is added is found by its name and makes executors", "[engine][backend]") {
  Backends backends = built_in_backends();
  backends.add(toy_backend());
  CHECK(backends.names() == std::vector<std::string>{"cpu", "cuda", "toy"});
  const auto found = backends.find("toy");
  REQUIRE(found);
  CHECK((*found)->is_gpu());
  CHECK((*found)->gpu->device()->name == "Toy GPU");
  ModelSpec spec;
  spec.vocabulary = 10;
  const auto executor = (*found)->synthetic(spec, {}, 1, {});
  REQUIRE(executor);
  Sampler sampler({});
  CHECK((*executor)->decode(3, sampler) == 4);
  CHECK((*executor)->cached() == 1);
  CHECK(built_in_backends().names() == std::vector<std::string>{"cpu", "cuda"});
}

TEST_CASE("A backend that is not there is an error that lists the others", "[engine][backend]") {
  const auto none = built_in_backends().find("metal");
  REQUIRE_FALSE(none);
  CHECK(none.error().message.find("metal") != std::string::npos);
  CHECK(none.error().hint.find("cpu, cuda") != std::string::npos);
}

TEST_CASE("A backend without a GPU of its own says so, others say why", "[engine][backend]") {
  CHECK_FALSE(cpu_backend().is_gpu());
  CHECK(cpu_backend().name == "cpu");
  const EngineBackend& cuda = **built_in_backends().find("cuda");
  REQUIRE(cuda.is_gpu());
  if (const auto gpu = cuda.gpu->device(); !gpu)
    CHECK(gpu.error().text().find("--device") != std::string::npos);
}

TEST_CASE("The GPU that is used is the first of those that answer", "[engine][backend]") {
  const auto no_gpu = [] { return Result<GpuDevice>(Error{ErrorKind::kMachine, "no GPU"}); };
  Backends backends;
  backends.add(cpu_backend());
  CHECK(backends.usable_gpu() == nullptr);
  EngineBackend broken = toy_backend();
  broken.name = "broken";
  broken.gpu->device = no_gpu;
  backends.add(std::move(broken));
  CHECK(backends.usable_gpu() == nullptr);
  backends.add(toy_backend());
  REQUIRE(backends.usable_gpu() != nullptr);
  CHECK(backends.usable_gpu()->name == "toy");
  CHECK(backends.all().size() == 3);
}

TEST_CASE("Executors of many sequences are made where there are some, and refused elsewhere",
          "[engine][backend]") {
  CHECK_FALSE(check_batch(cpu_backend(), {}));
  const auto none = check_batch(toy_backend(), {});
  REQUIRE(none);
  CHECK(none->message.find("\"toy\"") != std::string::npos);
  ExecutorOptions options;
  options.placement = Placement{.gpu_layers = 3, .layers = {}};
  const auto on_gpu = check_batch(cpu_backend(), options);
  REQUIRE(on_gpu);
  CHECK(on_gpu->message.find("3 layers") != std::string::npos);
  options.placement.reset();
  options.kv_eviction = KvEviction{};
  CHECK(check_batch(cpu_backend(), options));
}
