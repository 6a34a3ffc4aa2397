#pragma once
// A plan as JSON: "rigcast.plan/1". Its keys are a contract, as those of a report are.

#include <string>

#include "planner/plan.hpp"

namespace rigcast::planner {

/// "rigcast.plan/1", indented by two spaces.
std::string to_json(const Scenario& base, const Plan& plan);

}  // namespace rigcast::planner
