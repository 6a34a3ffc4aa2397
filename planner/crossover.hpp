#pragma once
// Two ways to place part of a model in RAM. Whole layers take their KV caches along, and the host's
// attention slows with every token; FFNs alone leave the cache in VRAM, and cost two handoffs a
// layer. The prompt's length decides which is faster.

#include <optional>

#include "planner/place_layers.hpp"

namespace rigcast::planner {

struct Crossover {
  TokenCount prompt_tokens = 0;  // the length from which `from` is faster
  PlacementSettings below{}, from{};
};

/// True if more layers have their FFN in RAM alone than are there as a whole.
bool keeps_ffns_apart(const Scenario& scenario, const PlacementSettings& placement);

/// The better of the two placements by `cost`; nullopt: neither fits.
std::optional<PlacementSettings> place_layers_or_ffns(
    const Scenario& scenario, const RequestCost& cost,
    HostWeights host_weights = HostWeights::kInRam);

/// The crossover within the scenario's context, to 1 %; nullopt: one placement is better
/// throughout.
std::optional<Crossover> find_crossover(const Scenario& scenario, const RequestCost& cost);

}  // namespace rigcast::planner
