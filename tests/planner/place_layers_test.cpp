// Against a grid of placements, each priced and weighed by itself.
#include "planner/place_layers.hpp"

#include "core/serial_time.hpp"
#include "tests/catch.hpp"
#include "tests/sim/scenario_generator.hpp"

using namespace rigcast;
using namespace rigcast::planner;
using namespace rigcast::fixtures;

namespace {

double request_seconds(const Scenario& s) {
  const SerialForecast forecast(s);
  return (forecast.prompt() + double(s.workload.output_tokens - 1) * forecast.mean_token()).value;
}

struct Best {
  double seconds = 1e300;
  PlacementSettings placement;
};

// Every number of layers, some splits, some experts in RAM.
std::optional<Best> best_of_grid(Scenario s) {
  const int layers = s.model.layers;
  std::vector<int> experts{0};
  if (s.model.moe) experts = {0, layers / 4, layers / 2, layers * 3 / 4, layers};
  std::vector<std::vector<double>> splits{{}};
  if (s.rig.gpus.size() == 2) splits = {{1, 1}, {1, 0}, {0, 1}, {2, 1}, {1, 2}, {3, 2}, {2, 3}};
  std::optional<Best> best;
  for (int n = 0; n <= layers + 1; ++n)
    for (const int moe : experts)
      for (const auto& split : splits) {
        s.placement.gpu_layers = n;
        s.placement.cpu_moe_layers = moe;
        s.placement.tensor_split = split;
        if (!fits(s, {})) continue;
        const double seconds = request_seconds(s);
        if (!best || seconds < best->seconds) best = Best{seconds, s.placement};
      }
  return best;
}

std::string text(const PlacementSettings& p) {
  std::string out = std::to_string(*p.gpu_layers) + " layers, experts of " +
                    std::to_string(p.cpu_moe_layers) + " in RAM, split";
  for (const double share : p.tensor_split) out += " " + std::to_string(share);
  return out;
}

}  // namespace

TEST_CASE("Placed layers are as fast as the best of a grid", "[planner]") {
  ScenarioGenerator generator(7);
  int missed = 0;
  for (int i = 0; i < 200; ++i) {
    Scenario s = generator.next();
    s.placement.decode_device = DecodeDevice::kPlacement;
    s.workload.output_tokens = 200;
    if (s.kv.policy == KvPolicy::kSpill) s.kv.policy = KvPolicy::kVram;
    const auto want = best_of_grid(s);
    const auto got = place_layers(s);
    INFO(i << ": " << generator.name());
    if (!want) continue;
    CHECK(got);
    if (!got) continue;
    s.placement = *got;
    s.placement = balance_layers(s, request_seconds);
    CHECK(fits(s, {}));
    const double seconds = request_seconds(s);
    INFO("placed: " << text(s.placement) << ", " << seconds << " s; grid: " << text(want->placement)
                    << ", " << want->seconds << " s");
    missed += seconds > 1.01 * want->seconds;
    CHECK(seconds <= 1.01 * want->seconds);
  }
  CHECK(missed == 0);
}
