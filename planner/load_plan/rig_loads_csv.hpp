#pragma once
// Plans and comparisons for a load, as tables.

#include <string>
#include <vector>

#include "planner/load_plan/load_plan.hpp"
#include "planner/load_plan/rig_loads.hpp"

namespace rigcast::planner {

/// A row for each choice. `price`: of one machine, or of its GPUs.
std::string to_csv(const LoadPlan& plan, const PartsPrice& price);
/// A row for each model and machine.
std::string to_csv(const std::vector<RigLoads>& models);

}  // namespace rigcast::planner
