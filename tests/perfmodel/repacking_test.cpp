// Weights that llama.cpp copies into a layout for the CPU when it loads a model.
#include <algorithm>

#include "perfmodel/memory.hpp"
#include "perfmodel/resolve_placement.hpp"
#include "perfmodel/runtimes/runtime_models.hpp"
#include "tests/catch.hpp"
#include "tests/sim/scenario_fixtures.hpp"

using namespace rigcast;
using fixtures::scenario;
using fixtures::Settings;
using fixtures::with;

namespace {

Settings on(const char* simd, const char* quant, const Settings& more = {}) {
  return with({{"rig.gpu", "[]"},
               {"placement.gpu_layers", "0"},
               {"rig.cpu_simd", simd},
               {"model.name", "llama-3.2-1b"},
               {"model.quant", quant}},
              more);
}

RepackedWeights repacked(const Settings& settings) {
  const Scenario s = scenario(settings);
  return runtime_model(s.runtime).repacked_weights(s, resolve_placement(s));
}

double mib(Bytes bytes) { return bytes.value / 0x1p20; }

}  // namespace

TEST_CASE("The buffers of repacked weights are as large as llama.cpp's", "[memory][llama.cpp]") {
  // Sizes that llama.cpp v0.5.0 reports of Llama 3.2 1B on a CPU with AMX, and on the same one
  // without the library that has it.
  const auto buffer = [](const char* simd, const char* quant) {
    return mib(repacked(on(simd, quant)).buffer);
  };
  const Settings with_amx = {{"rig.cpu_amx", "true"}};
  CHECK(repacked(on("avx512-vnni", "Q8_0", with_amx)).buffer == repacked(on("amx", "Q8_0")).buffer);
  CHECK(buffer("amx", "Q4_0") == Approx(727.49).margin(0.01));
  CHECK(buffer("amx", "Q4_K_M") == Approx(774.93).margin(0.01));
  CHECK(buffer("amx", "Q8_0") == Approx(1399.47).margin(0.01));
  CHECK(buffer("avx512-vnni", "Q4_0") == Approx(522.0).margin(0.01));
  CHECK(buffer("avx512-vnni", "Q4_K_M") == Approx(445.5).margin(0.01));
  CHECK(buffer("avx512-vnni", "Q8_0") == 0);
}

TEST_CASE("Weights are repacked by SIMD level, build and GPU", "[memory][llama.cpp]") {
  CHECK(repacked(on("avx", "Q4_K_M")).buffer == 0_B);
  CHECK(repacked(on("avx2", "Q2_K")).buffer < repacked(on("avx512", "Q2_K")).buffer);
  CHECK(repacked(on("avx2", "Q4_K_M", {{"runtime.build", "2025-01"}})).buffer == 0_B);
  CHECK(repacked({{"placement.gpu_layers", "8"}, {"rig.cpu_simd", "amx"}}).buffer == 0_B);
  CHECK(repacked(on("amx", "Q4_K_M", {{"runtime.name", "rigcast"}})).buffer == 0_B);
}

TEST_CASE("Repacked weights are no pages of the file", "[memory][llama.cpp]") {
  const Scenario s = scenario(on("amx", "Q8_0"));
  const Placement p = resolve_placement(s);
  const MemoryPlan plan = plan_memory(s, p, s.workload.context);
  const DeviceMemory& host = plan.devices.back();
  const double file = double(s.tensors.bytes());
  const RepackedWeights packed = runtime_model(s.runtime).repacked_weights(s, p);
  REQUIRE(packed.tied.value > 0);
  // The embedding is still looked up in the file.
  CHECK(host.weights.value == Approx(file - packed.from_file.value + packed.buffer.value));
  CHECK(host.page_cache.value == Approx(packed.from_file.value));
  CHECK(held_of_file(s, plan).value == Approx(file));
}

TEST_CASE("What is repacked has to fit, what is mapped does not", "[memory][llama.cpp]") {
  const auto outside = [](const char* simd) {
    const Scenario s = scenario(
        with(on(simd, "Q8_0"), {{"model.name", "llama-3.1-8b"}, {"rig.ram_capacity", "8 GiB"}}));
    return plan_memory(s, resolve_placement(s), s.workload.context);
  };
  CHECK(outside("avx2").fits());
  CHECK(outside("avx2").outside_ram.value > 0);
  CHECK_FALSE(outside("amx").fits());
}
