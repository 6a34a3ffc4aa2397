#pragma once
// The best placement of a scenario's layers.

#include <functional>
#include <optional>

#include "core/scenario/scenario.hpp"
#include "planner/layer_problem.hpp"

namespace rigcast::planner {

/// True if a scenario with its placement settings fits into memory up to its context limit, and
/// leaves the headroom on every GPU that it uses.
bool fits(const Scenario& scenario);

/// The placement settings that fit and minimise the request's seconds in layer_problem(); nullopt:
/// none fits. Not for KV policy `spill`, under which everything fits.
std::optional<PlacementSettings> place_layers(const Scenario& scenario, bool splits_layers = true,
                                              HostWeights host_weights = HostWeights::kInRam);

/// The cost of a scenario's request in seconds: prompt and all output tokens.
using RequestCost = std::function<double(const Scenario&)>;

/// Moves layers between the GPUs of a placed scenario while `cost` falls: several GPUs pipeline a
/// prompt, which no sum over layers shows. Of equal costs, the one with more space for context
/// wins. On one GPU that evicts blocks of the cache, moves layers to the host while `cost` falls.
PlacementSettings balance_layers(const Scenario& scenario, const RequestCost& cost);

}  // namespace rigcast::planner
