#pragma once
// A scenario's timeline, simulated: regimes of memory, a few steps of each.

#include "core/scenario/placement.hpp"
#include "core/scenario/scenario.hpp"
#include "report/pressure/hours.hpp"

namespace rigcast::sim {

/// `scenario` has a timeline, and set_machine() was called for its rig. The time that it takes
/// depends on how often the regime changes, not on the hours.
Hours simulate_hours(const Scenario& scenario, const Placement& placement);

}  // namespace rigcast::sim
