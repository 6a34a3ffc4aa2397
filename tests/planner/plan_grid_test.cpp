// Plans compared with an exhaustive grid of candidates, each with its own memory and cost: in the
// whole workload, a conversation that fills the context.
#include <algorithm>
#include <cstdlib>
#include <random>

#include "perfmodel/mean_turn.hpp"
#include "planner/output/plan_text.hpp"
#include "planner/plan.hpp"
#include "sim/simulate.hpp"
#include "tests/catch.hpp"
#include "tests/paths.hpp"
#include "tests/sim/scenario_fixtures.hpp"

using namespace rigcast;
using namespace rigcast::planner;
using fixtures::scenario;
using fixtures::Settings;

namespace {

double cost(const Scenario& s) { return mean_turn(s).value; }

Report simulated(std::shared_ptr<const Scenario> s) {
  sim::SimulateOptions sweep;
  sweep.fidelity = sim::Fidelity::kSweep;
  sweep.cliffs = false;
  return sim::simulate(std::move(s), sweep);
}

// How many cases: a few in every run of the tests, 200 in scripts/nightly.sh.
int cases() {
  const char* given = std::getenv("RIGCAST_GRID_CASES");
  return given ? std::atoi(given) : 1;
}

// The first of them, to look at one alone.
int first_case() {
  const char* given = std::getenv("RIGCAST_GRID_FIRST");
  return given ? std::atoi(given) : 0;
}

class Cases {
 public:
  Settings next() {
    const std::string gpu = one_of({"rtx-3060-12gb", "rtx-4060", "rtx-5060-ti-16gb", "rtx-3090",
                                    "rtx-4090", "rtx-2060", "rx-7900-xtx", "arc-b580"});
    const std::string two = one_of({"", "", "", "2x"});
    return {{"rig.gpu", "[\"" + two + gpu + "\"]"},
            {"rig.cpu", one_of({"core-i7-8700", "ryzen-7-5800x", "ryzen-9-7950x"})},
            {"rig.ram", one_of({"2xddr4-3200:32GiB", "2xddr5-6000:64GiB", "2xddr4-2666:128GiB"})},
            {"rig.pcie", one_of({"3x8", "3x16", "4x16"})},
            {"model.name", one_of({"llama-3.1-8b", "qwen3-14b", "gemma-3-27b", "qwen3-30b-a3b",
                                   "mistral-small-24b", "llama-3.3-70b", "gemma-3-12b"})},
            {"placement.gpu_layers", "\"auto\""},
            {"runtime.headroom", one_of({"0 GiB", "1 GiB"})},
            {"workload.context", one_of({"2048", "8192", "16384", "40960"})}};
  }
  double max_loss() { return std::stod(one_of({"0.006", "0.02", "0.05", "1"})); }

 private:
  std::string one_of(const std::vector<std::string>& all) {
    return all[std::uniform_int_distribution<std::size_t>(0, all.size() - 1)(random_)];
  }
  std::mt19937 random_{2026};
};

// The request that nobody stated, in place of the fixture's own.
Scenario filling(const Settings& settings) {
  Scenario s = scenario(settings);
  Workload& w = s.workload;
  w.prompt_tokens = w.output_tokens = 512;
  w.depth = (w.context - 1024) / 2;
  w.fills_context = true;
  return s;
}

std::vector<int> steps(int last, int count) {
  std::vector<int> out;
  for (int i = 0; i <= count; ++i) out.push_back(last * i / count);
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

// Layers on the GPUs, and layers whose FFN or experts are in RAM.
std::vector<PlacementSettings> placements(const Scenario& s) {
  constexpr int kSteps = 16;
  std::vector<std::vector<double>> splits{{}};
  if (s.rig.gpus.size() == 2) splits = {{1, 1}, {1, 0}, {2, 1}, {1, 2}, {3, 2}, {2, 3}};
  std::vector<int> layers = steps(s.model.layers, kSteps);
  layers.push_back(s.model.layers + 1);
  std::vector<PlacementSettings> out;
  for (const auto& split : splits)
    for (const int n : layers)
      for (const int apart : n == 0 ? std::vector{0} : steps(s.model.layers, kSteps)) {
        PlacementSettings p;
        p.gpu_layers = n;
        p.tensor_split = split;
        (s.model.moe ? p.cpu_moe_layers : p.cpu_ffn_layers) = apart;
        out.push_back(p);
      }
  return out;
}

struct Best {
  double seconds = 1e300;
  std::string what;
};

Best best_of_grid(const Scenario& base, const QualityTable& quality, double max_loss) {
  Best best;
  const SearchSpace space = full_space(base);
  for (const std::string& quant : space.quants)
    for (const KvTypes types : space.kv_types) {
      Candidate candidate = candidate_of(base);
      candidate.quant = quant;
      candidate.kv_types = types;
      const auto kv_loss = quality.of_kv(types);
      if (!kv_loss || !check_kv_types(base.model, types)) continue;
      Scenario s = scenario_of(base, candidate);
      const auto loss = quality.of_mix(quant, s.model, double(s.tensors.elements()));
      if (!loss || (*loss + *kv_loss).nats > max_loss) continue;
      for (const KvPolicy policy : space.policies)
        for (const PlacementSettings& placement : placements(s)) {
          s.kv.policy = policy;
          s.placement = placement;
          if (!fits(s)) continue;
          const double seconds = cost(s);
          if (seconds >= best.seconds) continue;
          candidate.policy = policy;
          candidate.placement = placement;
          best = {seconds, candidate_text(base, candidate)};
        }
    }
  return best;
}

}  // namespace

TEST_CASE("No candidate of a grid beats a plan in the whole workload", "[planner][grid]") {
  const auto quality =
      QualityTable::read(std::filesystem::path(test::source_dir()) / "models" / "quality");
  REQUIRE(quality);
  Cases generator;
  double worst = 0;
  for (int i = 0; i < cases(); ++i) {
    const Settings settings = generator.next();
    const double max_loss = generator.max_loss();
    const Scenario s = filling(settings);
    if (i < first_case()) continue;
    INFO(i << ": " << s.model.name << " on " << s.rig.gpus.size() << " x "
           << s.rig.gpus.front().name << ", " << s.rig.ram.id << ", context " << s.workload.context
           << ", loss at most " << max_loss);
    Constraints constraints;
    constraints.objective = Objective::kSpeed;
    constraints.max_loss = max_loss;
    const Best grid = best_of_grid(s, *quality, max_loss);
    const Plan plan = make_plan(s, full_space(s), constraints, *quality, cost, simulated);
    if (grid.what.empty()) continue;  // nothing fits
    REQUIRE(!plan.ranked.empty());
    const RankedPlan& best = plan.ranked.front();
    INFO("plan: " << candidate_text(s, best.candidate));
    INFO("grid: " << grid.what << ", " << grid.seconds << " s");
    CHECK(best.unmet.empty());
    const double seconds = cost(*best.report.scenario);
    worst = std::max(worst, seconds / grid.seconds);
    CHECK(seconds <= 1.02 * grid.seconds);
  }
  WARN(cases() << " cases, the worst plan takes " << worst << " times as long as the grid's best");
}
