// A few simulated windows, compared with a simulation of all tokens of a run.
#include <cmath>
#include <numeric>

#include "perfmodel/memory.hpp"
#include "perfmodel/resolve_placement.hpp"
#include "sim/decode.hpp"
#include "tests/catch.hpp"
#include "tests/sim/scenario_fixtures.hpp"

using namespace rigcast;
using namespace rigcast::sim;
using fixtures::scenario;
using fixtures::Settings;
using fixtures::with;

namespace {

double run_time(const Scenario& s, Fidelity fidelity) {
  const Placement placement = resolve_placement(s);
  set_machine(s.rig);
  DecodeModel model(s, placement, fidelity);
  const auto periods = model.periods(s.workload.prompt_tokens + 1, s.workload.last_position());
  return std::accumulate(periods.begin(), periods.end(), 0.0);
}

void check_errors(const char* name, const Settings& settings, TokenCount tokens) {
  const Scenario s = scenario(
      with({{"workload.output_tokens", std::to_string(tokens)}, {"workload.context", "8192"}},
           settings));
  const Placement placement = resolve_placement(s);
  CAPTURE(name, placement.gpu_layers, plan_memory(s, placement, 8192).resident_tokens.value_or(0));
  const double exact = run_time(s, Fidelity::kExact);
  const double final = run_time(s, Fidelity::kFinal);
  const double sweep = run_time(s, Fidelity::kSweep);
  CAPTURE(exact, final / exact - 1, sweep / exact - 1);
  CHECK(std::fabs(final / exact - 1) <= 0.003);
  CHECK(std::fabs(sweep / exact - 1) <= 0.015);
}

// The cache outgrows VRAM well after the first token and well before the last.
void check_errors_with_cliff(const char* name, const Settings& settings, TokenCount tokens) {
  const Scenario s = scenario(settings);
  const auto resident = plan_memory(s, resolve_placement(s), 8192).resident_tokens;
  CAPTURE(name);
  REQUIRE(resident);
  REQUIRE(*resident > s.workload.prompt_tokens + tokens / 10);
  REQUIRE(*resident < s.workload.prompt_tokens + tokens * 9 / 10);
  check_errors(name, settings, tokens);
}

const Settings kRigcast = {{"runtime.name", "rigcast"}};
const Settings kPaged = with(kRigcast, {{"kv.policy", "paged"}, {"rig.vram_capacity", "6.1 GiB"}});
const Settings kBig = {{"model.name", "llama-3.3-70b"},
                       {"rig.gpu", "rtx-6000-ada-48gb"},
                       {"rig.ram", "8xddr5-4800:256GiB"},
                       {"placement.gpu_layers", "81"}};

Settings streamed(const char* layers, const Settings& settings = kRigcast) {
  return with(settings, {{"placement.gpu_layers", layers}, {"placement.decode_device", "gpu"}});
}

}  // namespace

TEST_CASE("sampling is within its bounds where nothing overlaps", "[sampling]") {
  check_errors("resident, 32 layers", {}, 4096);
  check_errors("resident, 80 layers", with(kBig, {{"rig.gpu", "h100-sxm"}}), 1500);
  check_errors("layer split", {{"placement.gpu_layers", "20"}}, 4096);
  check_errors("experts in RAM",
               {{"model.name", "qwen3-30b-a3b"},
                {"placement.gpu_layers", "49"},
                {"placement.cpu_moe_layers", "36"}},
               4096);
  check_errors("two GPUs", {{"rig.gpu", "[\"2xrtx-3060-12gb\"]"}}, 4096);
  check_errors(
      "unified memory",
      {{"rig.gpu", "strix-halo-128gb"}, {"rig.cpu", "ryzen-ai-max-395"}, {"rig.ram", "128 GiB"}},
      4096);
  check_errors("sliding window", {{"model.name", "gemma-3-4b"}, {"placement.gpu_layers", "35"}},
               4096);
  check_errors("cache on the CPU", {{"kv.policy", "ram"}}, 4096);
}

TEST_CASE("sampling is within its bounds when the cache leaves VRAM during the run", "[sampling]") {
  check_errors_with_cliff("paged", kPaged, 4096);
  check_errors_with_cliff("paged, read when needed", with(kPaged, {{"kv.prefetch", "false"}}),
                          4096);
  check_errors_with_cliff("paged, least recently used", with(kPaged, {{"kv.evict", "lru"}}), 4096);
  check_errors_with_cliff("paged, compressed", with(kPaged, {{"kv.cold_type", "q4_0"}}), 4096);
  check_errors_with_cliff("paged, combined", with(kPaged, {{"kv.policy", "combined"}}), 4096);
  check_errors_with_cliff(
      "paged, layer split",
      with(kPaged, {{"placement.gpu_layers", "24"}, {"rig.vram_capacity", "4.8 GiB"}}), 4096);
  check_errors_with_cliff("paged, slow link", with(kPaged, {{"rig.pcie", "3x4"}}), 4096);
}

TEST_CASE("sampling is within its bounds when the cache is streamed", "[sampling]") {
  check_errors("stream", with(kRigcast, {{"kv.policy", "stream"}}), 4096);
  check_errors("stream, large head",
               with(kRigcast, {{"kv.policy", "stream"},
                               {"model.name", "llama-3.2-3b"},
                               {"placement.gpu_layers", "29"}}),
               4096);
}

TEST_CASE("sampling is within its bounds when weights are streamed", "[sampling]") {
  for (const char* layers : {"0", "8", "24", "31"}) check_errors(layers, streamed(layers), 2048);
}

TEST_CASE("sampling is within its bounds for 80 layers that contend", "[sampling]") {
  check_errors_with_cliff("paged", with(kBig, with(kPaged, {{"rig.vram_capacity", "43.6 GiB"}})),
                          1500);
  check_errors("2 streamed", streamed("78", with(kBig, kRigcast)), 700);
  check_errors("40 streamed", streamed("40", with(kBig, kRigcast)), 400);
}

TEST_CASE("a run of one token has one period and of none has none", "[sampling]") {
  const Scenario s = scenario();
  const Placement placement = resolve_placement(s);
  set_machine(s.rig);
  for (const Fidelity fidelity : {Fidelity::kSweep, Fidelity::kFinal, Fidelity::kExact}) {
    DecodeModel model(s, placement, fidelity);
    CHECK(model.periods(600, 600).size() == 1);
    CHECK(model.periods(600, 599).empty());
  }
}
