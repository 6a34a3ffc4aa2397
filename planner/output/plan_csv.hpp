#pragma once
// A plan as comma-separated values.

#include <string>

#include "planner/plan.hpp"

namespace rigcast::planner {

/// A line for each plan that was simulated, the best first.
std::string to_csv(const Scenario& base, const Plan& plan);

}  // namespace rigcast::planner
