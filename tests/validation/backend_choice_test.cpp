// A run on a backend that the program does not know: what depends on the device asks the backend.
#include <memory>
#include <optional>
#include <string>

#include "tests/catch.hpp"
#include "tests/core/catalogue_fixture.hpp"
#include "tests/engine/toy_backend.hpp"
#include "validation/runs/local_machine.hpp"
#include "validation/runs/measure.hpp"

using namespace rigcast;
using rigcast::engine::fixtures::toy_backend;
using rigcast::engine::fixtures::ToyCalls;
using validation::ExecuteOptions;

namespace {

Scenario small_scenario(const std::string& rig, const std::string& more = {}) {
  auto document = TomlDocument::parse(rig + R"(
[model]
name = "llama-3.2-1b"
quant = "Q8_0"
[workload]
prompt_tokens = 4
output_tokens = 3
context = 256
)" + more,
                                      "s.toml");
  REQUIRE(document);
  auto made = validation::make_scenario_here(*document, fixtures::catalogue());
  if (!made) FAIL(made.error().text());
  return *std::move(made);
}

ExecuteOptions on(const engine::EngineBackend& backend) {
  ExecuteOptions options;
  options.backend = &backend;
  options.synthetic = true;
  options.repeat = 1;
  options.vram_ceiling = BytesPerSecond{1e12};  // as if it had been measured
  return options;
}

constexpr const char* kWithGpu = "[rig]\ngpu = \"rtx-4090\"\n";

}  // namespace

TEST_CASE("A scenario is checked and executed on any backend's GPU", "[validation][backend]") {
  const auto calls = std::make_shared<ToyCalls>();
  const engine::EngineBackend toy = toy_backend(calls);
  const ExecuteOptions options = on(toy);
  const auto scenario = std::make_shared<Scenario>(small_scenario(kWithGpu));
  if (const auto error = validation::check_runnable(*scenario, options)) FAIL(error->text());
  CHECK(calls->checks == 1);
  const auto placement = validation::placement_here(*scenario, options);
  REQUIRE(placement);
  CHECK(placement->gpu_layers == scenario->model.layers + 1);
  const auto executed = validation::execute(scenario, options);
  if (!executed) FAIL(executed.error().text());
  CHECK(calls->executors == 1);
  REQUIRE(executed->report.memory.devices.size() == 2);
  CHECK(executed->report.memory.devices.front().device == "Toy GPU");
  CHECK(executed->report.measured->runs == 1);
}

TEST_CASE("Refusals name the backend, and its memory decides what fits", "[validation][backend]") {
  const engine::EngineBackend toy = toy_backend();
  const auto none =
      validation::check_runnable(small_scenario("[rig]\ncpu = \"core-i7-8700\"\n"), on(toy));
  REQUIRE(none);
  CHECK(none->message == "--device toy: the rig has no GPU");
  const engine::EngineBackend full = toy_backend(std::make_shared<ToyCalls>(), 100_MiB);
  const Scenario scenario = small_scenario(kWithGpu, "[placement]\ngpu_layers = 17\n");
  const auto short_of_memory = validation::check_runnable(scenario, on(full));
  REQUIRE(short_of_memory);
  CHECK(short_of_memory->kind == ErrorKind::kDoesNotFit);
  CHECK(short_of_memory->message.find("GPU memory") != std::string::npos);
}
