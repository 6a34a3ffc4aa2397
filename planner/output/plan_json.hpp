#pragma once
// A plan as JSON: "rigcast.plan/1". Its keys are a contract, as those of a report are.

#include <string>

#include "planner/plan.hpp"

namespace rigcast::planner {

/// "rigcast.plan/1", indented by two spaces. `why_not`: of a plan without choices.
std::string to_json(const Scenario& base, const Plan& plan, const std::string& why_not = {});

}  // namespace rigcast::planner
