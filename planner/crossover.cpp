#include "planner/crossover.hpp"

#include <algorithm>

namespace rigcast::planner {
namespace {

bool ffn_in_ram_alone(const PlacementSettings& p) {
  return p.cpu_moe_layers + p.cpu_ffn_layers > 0;
}

}  // namespace

std::optional<PlacementSettings> place_layers_or_ffns(const Scenario& scenario,
                                                      const RequestCost& cost,
                                                      HostWeights host_weights) {
  const auto apart = place_layers(scenario, true, host_weights);
  if (!apart || !ffn_in_ram_alone(*apart)) return apart;
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
  if (!below || !from || ffn_in_ram_alone(*below) == ffn_in_ram_alone(*from)) return std::nullopt;
  while (longest - shortest > std::max<TokenCount>(1, longest / 100)) {
    const TokenCount middle = shortest + (longest - shortest) / 2;
    auto p = at(middle);
    if (!p) return std::nullopt;
    const bool is_below = ffn_in_ram_alone(*p) == ffn_in_ram_alone(*below);
    (is_below ? shortest : longest) = middle;
    (is_below ? below : from) = std::move(p);
  }
  return Crossover{longest, *below, *from};
}

}  // namespace rigcast::planner
