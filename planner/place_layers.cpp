#include "planner/place_layers.hpp"

#include <algorithm>

#include "perfmodel/memory.hpp"
#include "perfmodel/resolve_placement.hpp"
#include "planner/layer_problem.hpp"

namespace rigcast::planner {
namespace {

// The number of corrections: buffers depend on what shares a device, so a sum over layers can be
// wrong by some of them.
constexpr int kMaxRepairs = 8;

struct MemoryShortfall {
  std::vector<double> bytes;  // [memory]
  bool any = false;
};

MemoryShortfall memory_shortfall(const Scenario& s) {
  const Placement placement = resolve_placement(s);
  const MemoryPlan plan = plan_memory(s, placement, s.workload.context);
  MemoryShortfall shortfall;
  for (std::size_t m = 0; m < plan.devices.size(); ++m) {
    const bool is_used = m + 1 < plan.devices.size() && plan.devices[m].weights.value > 0;
    const double free = plan.devices[m].free().value - (is_used ? s.settings.headroom.value : 0.0);
    shortfall.bytes.push_back(std::max(0.0, -free));
    shortfall.any = shortfall.any || free < 0;
  }
  if (!plan.resident_tokens || *plan.resident_tokens >= s.kv.hot_tokens) return shortfall;
  // All blocks have been evicted, and the GPU is still too full.
  shortfall.any = true;
  const MemoryPlan least = memory_at_context_limit(s, placement);
  for (std::size_t g = 0; g + 1 < least.devices.size(); ++g) {
    const double over = least.devices[g].needed().value - usable_when_paged(s, least.devices[g]);
    shortfall.bytes[g] = std::max({shortfall.bytes[g], over, 0.0});
  }
  return shortfall;
}

// Adds layers to the GPU one at a time while they fit, because the sum over layers may be too
// careful. Layers that evict blocks of the cache are no gain.
void grow(Scenario& s) {
  if (s.rig.gpus.size() != 1 || evicts(s.kv.policy)) return;
  for (int& layers = *s.placement.gpu_layers; layers <= s.model.layers;) {
    ++layers;
    if (fits(s)) continue;
    --layers;
    return;
  }
}

// A bonus for even splits: of two that cost the same, the one that fills GPUs more evenly leaves
// more space for context. It is worth half a percent of the time.
constexpr double kRoom = 0.005;

double fullness(const Scenario& s) {
  const MemoryPlan plan = plan_memory(s, resolve_placement(s), s.workload.context);
  double squares = 0;
  for (std::size_t g = 0; g + 1 < plan.devices.size(); ++g) {
    const double full = plan.devices[g].needed() / plan.devices[g].capacity;
    squares += full * full;
  }
  return squares / double(plan.devices.size() - 1);
}

// Moves layers from one GPU to another while that lowers the cost, in ever smaller steps.
class Balance {
 public:
  Balance(Scenario s, const RequestCost& cost) : s_(std::move(s)), cost_(cost), min_(cost_now()) {}

  PlacementSettings run() {
    for (int step = std::max(1, *s_.placement.gpu_layers / 2); step > 0; step /= 2)
      while (any_move(step)) {
      }
    return s_.placement;
  }

 private:
  double cost_now() const { return cost_(s_) * (1 + kRoom * fullness(s_)); }

  bool any_move(int step) {
    const std::size_t gpus = s_.rig.gpus.size();
    for (std::size_t from = 0; from < gpus; ++from)
      for (std::size_t to = 0; to < gpus; ++to)
        if (from != to && moves(from, to, step)) return true;
    return false;
  }

  bool moves(std::size_t from, std::size_t to, int step) {
    auto& split = s_.placement.tensor_split;
    if (split[from] < step) return false;
    const auto before = split;
    split[from] -= step;
    split[to] += step;
    if (!skips_identical_gpu() && fits(s_))
      if (const double cost = cost_now(); cost < min_) {
        min_ = cost;
        return true;
      }
    split = before;
    return false;
  }

  // True if the split skips an identical GPU: of identical GPUs, the first ones have layers.
  bool skips_identical_gpu() const {
    const auto& split = s_.placement.tensor_split;
    for (std::size_t g = 1; g < split.size(); ++g)
      if (split[g] > 0 && split[g - 1] == 0 && same_as_previous_gpu(s_.rig, DeviceIndex(g)))
        return true;
    return false;
  }

  Scenario s_;
  const RequestCost& cost_;
  double min_;
};

// Trades layers on the GPU against blocks of the cache: the memory of a layer may be worth more as
// cache; or less, where the sum over layers was too careful.
PlacementSettings layers_against_cache(Scenario s, const RequestCost& cost) {
  int& layers = *s.placement.gpu_layers;
  double least = cost(s);
  for (const int by : {1, -1})
    while (layers + by >= 0 && layers + by <= s.model.layers + 1) {
      layers += by;
      const double now = fits(s) ? cost(s) : least;
      if (now < least) {
        least = now;
        continue;
      }
      layers -= by;
      break;
    }
  return s.placement;
}

}  // namespace

bool fits(const Scenario& scenario) { return !memory_shortfall(scenario).any; }

std::optional<PlacementSettings> place_layers(const Scenario& scenario, bool splits_layers,
                                              HostWeights host_weights) {
  LayerProblem problem = layer_problem(scenario, splits_layers, host_weights);
  Scenario placed = host_weights == HostWeights::kInRam ? in_ram_only(scenario) : scenario;
  for (int i = 0; i < kMaxRepairs; ++i) {
    const auto assignment = assign_layers(problem.problem);
    if (!assignment) return std::nullopt;
    placed.placement = placement_settings(scenario, problem, *assignment);
    const MemoryShortfall shortfall = memory_shortfall(placed);
    if (!shortfall.any) {
      if (i > 0) grow(placed);
      return placed.placement;
    }
    // The reserve doubles each time, because moving a layer may free less than the shortfall.
    for (std::size_t m = 0; m < shortfall.bytes.size(); ++m)
      problem.problem.capacity[m] -= shortfall.bytes[m] * (1 << i);
  }
  return std::nullopt;
}

PlacementSettings balance_layers(const Scenario& scenario, const RequestCost& cost) {
  if (scenario.rig.gpus.size() == 1 && evicts(scenario.kv.policy))
    return layers_against_cache(scenario, cost);
  if (scenario.placement.tensor_split.empty()) return scenario.placement;
  return Balance(scenario, cost).run();
}

}  // namespace rigcast::planner
