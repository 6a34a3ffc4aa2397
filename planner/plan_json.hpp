#pragma once
// A plan as JSON: "rigcast.plan/1". Its keys are a contract, as those of a report are.

#include <string>

#include "planner/plan.hpp"

namespace rigcast::planner {

/// "rigcast.plan/1", indented by two spaces. Of a plan without choices: why there are none, and
/// what would fit; empty texts become null.
std::string to_json(const Scenario& base, const Plan& plan, const std::string& why_not = {},
                    const std::string& what_would_fit = {});

}  // namespace rigcast::planner
