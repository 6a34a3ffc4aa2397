#pragma once
// Plans and comparisons for a load, for people.

#include <string>
#include <vector>

#include "planner/load_plan/load_plan.hpp"
#include "planner/load_plan/rig_loads.hpp"
#include "report/terminal/text_style.hpp"

namespace rigcast::planner {

/// The best choice, what its users see, and the others. `price`: of one machine, or of its GPUs if
/// `gpus_alone`; `watts`: of one machine at its limits; `notes`: on the best choice.
std::string to_text(const Scenario& scenario, const LoadPlan& plan, const PartsPrice& price,
                    bool gpus_alone, std::optional<double> watts,
                    const std::vector<std::string>& notes, TextStyle style);

/// A row for each model and machine. `notes`: what else is to be known.
std::string to_text(const std::vector<RigLoads>& models, const std::vector<std::string>& notes,
                    TextStyle style);

}  // namespace rigcast::planner
