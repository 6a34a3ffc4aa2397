#pragma once
// Plans and comparisons for a load, for scripts: docs/report.md.

#include <string>
#include <vector>

#include "planner/load_plan/load_plan.hpp"
#include "planner/load_plan/rig_loads.hpp"

namespace rigcast::planner {

/// `load_plan/1`. `price`: of one machine; `notes`: on the best choice.
std::string to_json(const Scenario& scenario, const LoadPlan& plan, const PartsPrice& price,
                    const std::vector<std::string>& notes = {});
/// `load_comparison/1` where an amount is asked for, else `capacities/1`; of several models a list
/// of these.
std::string to_json(const std::vector<RigLoads>& models);

}  // namespace rigcast::planner
