// Weights in RAM against caches in RAM, as others measured it: the same machine and model, and only
// the prompt grows (unslothai/unsloth PR 9872, comment of 2026-09-07).
#include "planner/crossover.hpp"

#include <cmath>

#include "perfmodel/serial_time.hpp"
#include "planner/output/plan_text.hpp"
#include "planner/plan.hpp"
#include "sim/simulate.hpp"
#include "tests/catch.hpp"
#include "tests/paths.hpp"
#include "tests/sim/scenario_fixtures.hpp"

using namespace rigcast;
using namespace rigcast::planner;
using fixtures::Settings;

namespace {

// An i5-12400F with 94 GiB in two channels. Their type is not said: with the blocks that their
// planner put there, DDR4-3200 gives the speed they measured, DDR5 twice that.
constexpr const char* kDesktop = R"(
  [rig]
  gpu = ["rtx-6000-ada-48gb"]
  cpu = "core-i5-12400"
  ram = "2xddr4-3200:96GiB"
  ssd = "samsung-990-pro"
  pcie = "4x16"
  [model]
  quant = "Q4_K_M"
  [runtime]
  name = "llama.cpp"
  [workload]
  output_tokens = 256
  context = 32768
  start = "resident"
)";

struct Case {
  const char* model;
  const char* free_vram;
  int apart;  // blocks whose FFN their planner kept in RAM
};
constexpr Case kLlama{"llama-3.3-70b", "38016MiB", 38};
constexpr Case kQwen{"qwen3-32b", "18560MiB", 55};

// Tokens of the prompt, and the request of whole layers in RAM to that of FFNs in RAM.
struct Measured {
  Case of;
  TokenCount prompt;
  double ratio;
};
constexpr Measured kMeasured[] = {
    {kLlama, 2339, 0.87}, {kLlama, 8051, 1.08}, {kLlama, 16202, 1.43}, {kLlama, 29540, 1.57},
    {kQwen, 2318, 0.55},  {kQwen, 8039, 1.10},  {kQwen, 16190, 1.66},  {kQwen, 29528, 1.93}};

Scenario asked(const Case& c, TokenCount prompt) {
  return fixtures::scenario({{"model.name", c.model},
                             {"rig.vram_capacity", c.free_vram},
                             {"runtime.headroom", "0 GiB"},
                             {"workload.prompt_tokens", std::to_string(prompt)}},
                            kDesktop);
}

Report simulated(std::shared_ptr<const Scenario> s) {
  sim::SimulateOptions sweep;
  sweep.fidelity = sim::Fidelity::kSweep;
  sweep.cliffs = false;
  return sim::simulate(std::move(s), sweep);
}

double request_of(Scenario s, PlacementSettings placement) {
  s.placement = std::move(placement);
  const Report r = simulated(std::make_shared<const Scenario>(std::move(s)));
  REQUIRE(r.fits);
  return (r.ttft()->total() + r.tpot.mean * 255.0).value;
}

constexpr double kTie = 0.05;  // measurements of one machine differ by as much

double request_seconds(const Scenario& s) { return SerialForecast(s).request().value; }

}  // namespace

TEST_CASE("The faster of weights and caches in RAM is forecast at every prompt length",
          "[planner]") {
  for (const Measured& m : kMeasured) {
    const Scenario s = asked(m.of, m.prompt);
    PlacementSettings apart;
    apart.gpu_layers = s.model.layers + 1;
    apart.cpu_ffn_layers = m.of.apart;
    const double ratio = request_of(s, {}) / request_of(s, apart);
    INFO(m.of.model << ", " << m.prompt << " tokens: forecast " << ratio << ", measured "
                    << m.ratio);
    // Off by no more than the distance between two adjacent prompts of the table, and the faster
    // one is the same, but where they are forecast to be within what two measurements differ by.
    CHECK(std::abs(std::log(ratio / m.ratio)) < 0.3);
    if (std::abs(ratio - 1) > kTie) CHECK((ratio > 1) == (m.ratio > 1));
  }
}

namespace {

// What was measured, for a plan that keeps another number of FFNs in RAM than theirs: most of a
// request is the time that the CPU takes for these.
double expected_ratio(const Measured& m, const Plan& plan) {
  return m.ratio * double(m.of.apart) / double(plan.crossover->from.cpu_ffn_layers);
}

}  // namespace

TEST_CASE("The plan turns where the measurements do", "[planner]") {
  const auto quality =
      QualityTable::read(std::filesystem::path(test::source_dir()) / "models" / "quality");
  REQUIRE(quality);
  for (const Measured& m : kMeasured) {
    if (m.of.model != kLlama.model) continue;
    const Scenario s = asked(m.of, m.prompt);
    SearchSpace search_space = full_space(s);
    search_space.quants = {s.quant};
    search_space.kv_types = {s.kv.types};
    search_space.policies = {KvPolicy::kVram};
    search_space.ubatches = {512};
    search_space.threads.clear();
    const Plan plan = make_plan(s, search_space, {}, *quality, request_seconds, simulated);
    REQUIRE(!plan.ranked.empty());
    INFO(to_text(s, plan, {}));
    REQUIRE(plan.crossover);
    REQUIRE(plan.crossover->from.cpu_ffn_layers > 0);
    CHECK(plan.crossover->prompt_tokens < 8051);
    const double ratio = expected_ratio(m, plan);
    if (std::abs(ratio - 1) > kTie) {
      CHECK(keeps_ffns_apart(s, plan.ranked.front().candidate.placement) == (ratio > 1));
      CHECK((plan.crossover->prompt_tokens < m.prompt) == (ratio > 1));
    }
    CHECK_FALSE(keeps_ffns_apart(s, plan.crossover->below));
    CHECK(keeps_ffns_apart(s, plan.crossover->from));
  }
}

TEST_CASE("Where all fits there is nothing to turn", "[planner]") {
  const Scenario s = fixtures::scenario({{"rig.gpu", "rtx-4090"}});
  CHECK(!find_crossover(s, request_seconds));
}
