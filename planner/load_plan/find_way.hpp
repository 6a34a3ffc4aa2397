#pragma once
// The settings of a server with which it serves most of a load.

#include <functional>
#include <optional>

#include "planner/load_plan/served_way.hpp"

namespace rigcast::planner {

/// What stays as it is.
struct FixedSettings {
  bool sequences = false;  // slots, or sequences that run at once
  bool ubatch = false;
  bool budget = false;  // tokens of a step
};

/// Of the scenario's mix and cache, a way from whose settings no single change serves more: twice
/// or half as many slots or sequences, ubatches, four times or a quarter of a step's tokens. A
/// change is tried with the least load that was not served without it. `about`: what is served, if
/// something is known. Ways with all layers on GPUs come first; nullopt: it does not fit, or, if
/// `on_gpus`, not there. Errors: those of find_most().
Result<std::optional<ServedWay>> find_way(const Scenario& scenario, const FixedSettings& fixed,
                                          bool on_gpus, const MakeServer& make_server,
                                          double about);

/// Adds the ends of the interval.
Result<bool> find_interval(ServedWay& way, const MakeServer& make_server);

}  // namespace rigcast::planner
