#include "planner/crossover.hpp"

#include <algorithm>

#include "core/scenario/placement.hpp"

namespace rigcast::planner {
namespace {

bool has_ffns_apart(const PlacementSettings& p) { return p.cpu_moe_layers + p.cpu_ffn_layers > 0; }

// Moves single layers and FFNs while the cost falls: what they leave free by the sum over layers,
// which rounds buffers up, may hold half a layer more on every GPU. A small gain is not worth the
// space for a longer context that it takes.
class Improvement {
 public:
  Improvement(const Scenario& s, const RequestCost& cost)
      : s_(s), cost_(cost), may_split_(s.model.moe || s.runtime.ffn_in_ram), least_(cost(s_)) {}

  PlacementSettings run() {
    constexpr int kMaxMoves = 16;
    constexpr double kMinGain = 0.015;  // half of what is inside any forecast's noise
    const PlacementSettings before = s_.placement;
    const double cost = least_;
    for (int i = 0; i < kMaxMoves && any_move(); ++i) {
    }
    return least_ < (1 - kMinGain) * cost ? s_.placement : before;
  }

 private:
  struct Move {
    int layers, apart;  // on the GPU; with their FFN in RAM
  };

  bool any_move() {
    constexpr Move kMoves[] = {{0, -1}, {1, 0}, {1, -1}, {1, 1}, {-1, -1}};
    const PlacementSettings before = s_.placement;
    PlacementSettings best = before;
    for (const Move& m : kMoves)
      for (std::size_t gpu = 0; gpu < (m.layers == 0 ? 1 : s_.rig.gpus.size()); ++gpu) {
        s_.placement = before;
        if (!apply(m, gpu) || !fits(s_)) continue;
        const double now = cost_(s_);
        if (now < least_) least_ = now, best = s_.placement;
      }
    s_.placement = best;
    return best.gpu_layers != before.gpu_layers || apart(best) != apart(before);
  }

  int apart(const PlacementSettings& p) const {
    return s_.model.moe ? p.cpu_moe_layers : p.cpu_ffn_layers;
  }

  // Layers come to, or leave, `gpu`, which has some. False: there is no such placement. Of the
  // first layers, those that are on the host as a whole have their FFN there, too.
  bool apply(const Move& m, std::size_t gpu) {
    PlacementSettings& p = s_.placement;
    if (!p.tensor_split.empty()) {
      double& share = p.tensor_split[gpu];
      if (m.layers != 0 && (share < 1 || share + m.layers < 1)) return false;
      share += m.layers;
    }
    int& in_ram = s_.model.moe ? p.cpu_moe_layers : p.cpu_ffn_layers;
    const int host_before = on_host(p);
    p.gpu_layers = *p.gpu_layers + m.layers;
    if (*p.gpu_layers < 1 || *p.gpu_layers > s_.model.layers + 1) return false;
    const int ffns = std::max(in_ram, host_before) + m.apart, host = on_host(p);
    if (ffns < host || ffns > s_.model.layers) return false;
    in_ram = ffns > host ? ffns : 0;
    return may_split_ || in_ram == 0;
  }

  int on_host(const PlacementSettings& p) const {
    return s_.model.layers - layers_without_head(s_, *p.gpu_layers);
  }

  Scenario s_;
  const RequestCost& cost_;
  bool may_split_;
  double least_;
};

}  // namespace

bool keeps_ffns_apart(const Scenario& s, const PlacementSettings& p) {
  const int whole = s.model.layers - layers_without_head(s, p.gpu_layers.value_or(0));
  return p.cpu_moe_layers + p.cpu_ffn_layers > 2 * whole;  // whole layers are among the first
}

std::optional<PlacementSettings> place_layers_or_ffns(const Scenario& scenario,
                                                      const RequestCost& cost,
                                                      HostWeights host_weights) {
  auto apart = place_layers(scenario, true, host_weights);
  if (!apart) return apart;
  Scenario s = host_weights == HostWeights::kInRam ? in_ram_only(scenario) : scenario;
  const auto price = [&](const PlacementSettings& p) {
    s.placement = p;
    return cost(s);
  };
  if (has_ffns_apart(*apart)) {
    const auto whole = place_layers(scenario, false, host_weights);
    if (whole && price(*whole) < price(*apart)) apart = whole;
  }
  const bool is_whole = *apart->gpu_layers == s.model.layers + 1 && !has_ffns_apart(*apart);
  if (s.rig.gpus.empty() || s.rig.unified() || evicts(s.kv.policy) || is_whole) return apart;
  s.placement = *apart;
  return Improvement(s, cost).run();
}

std::optional<Crossover> find_crossover(const Scenario& scenario, const RequestCost& cost) {
  // A conversation's first prompt finds an empty cache.
  const TokenCount depth = scenario.workload.fills_context ? 0 : scenario.workload.depth;
  const auto at = [&](TokenCount prompt) {
    Scenario s = scenario;
    s.workload.prompt_tokens = prompt;
    s.workload.depth = depth;
    s.workload.fills_context = false;
    return place_layers_or_ffns(s, cost);
  };
  TokenCount shortest = 1;
  TokenCount longest =
      scenario.workload.context - depth - std::max<TokenCount>(1, scenario.workload.output_tokens);
  if (longest <= shortest) return std::nullopt;
  auto below = at(shortest), from = at(longest);
  if (!below || !from || keeps_ffns_apart(scenario, *below) == keeps_ffns_apart(scenario, *from))
    return std::nullopt;
  while (longest - shortest > std::max<TokenCount>(1, longest / 100)) {
    const TokenCount middle = shortest + (longest - shortest) / 2;
    auto p = at(middle);
    if (!p) return std::nullopt;
    const bool is_below = keeps_ffns_apart(scenario, *p) == keeps_ffns_apart(scenario, *below);
    (is_below ? shortest : longest) = middle;
    (is_below ? below : from) = std::move(p);
  }
  return Crossover{longest, *below, *from};
}

}  // namespace rigcast::planner
