#include "planner/crossover.hpp"

#include <algorithm>

#include "core/scenario/placement.hpp"

namespace rigcast::planner {
namespace {

bool has_ffns_apart(const PlacementSettings& p) { return p.cpu_moe_layers + p.cpu_ffn_layers > 0; }

}  // namespace

bool keeps_ffns_apart(const Scenario& s, const PlacementSettings& p) {
  const int whole = s.model.layers - layers_without_head(s, p.gpu_layers.value_or(0));
  return p.cpu_moe_layers + p.cpu_ffn_layers > 2 * whole;  // whole layers are among the first
}

std::optional<PlacementSettings> place_layers_or_ffns(const Scenario& scenario,
                                                      const RequestCost& cost,
                                                      HostWeights host_weights) {
  const auto apart = place_layers(scenario, true, host_weights);
  if (!apart || !has_ffns_apart(*apart)) return apart;
  const auto whole = place_layers(scenario, false, host_weights);
  if (!whole) return apart;
  const auto price = [&](const PlacementSettings& p) {
    Scenario s = scenario;
    s.placement = p;
    return cost(s);
  };
  return price(*whole) < price(*apart) ? whole : apart;
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
