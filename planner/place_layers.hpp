#pragma once
// The best placement of a scenario's layers.

#include <functional>
#include <optional>

#include "core/scenario/scenario.hpp"

namespace rigcast::planner {

/// Whether a scenario with its placement settings fits into memory up to its context limit, and
/// leaves `headroom` on every GPU that it uses.
bool fits(const Scenario& scenario, Bytes headroom);

/// The placement settings with which the scenario's request takes least by layer_problem's seconds,
/// of all that fit; nullopt: none does. Not for the policy spill, under which all fits.
std::optional<PlacementSettings> place_layers(const Scenario& scenario, Bytes headroom = {},
                                              bool splits_layers = true);

/// Seconds of a scenario's request: prompt and all output tokens.
using RequestCost = std::function<double(const Scenario&)>;

/// Layers moved between the GPUs of a placed scenario while `cost` likes that better: several GPUs
/// take turns at a prompt, which no sum over layers sees. What costs the same leaves more room for
/// context. On one GPU, which blocks of the cache leave, layers go to the host while `cost` likes
/// that better.
PlacementSettings balance_layers(const Scenario& scenario, const RequestCost& cost,
                                 Bytes headroom = {});

}  // namespace rigcast::planner
