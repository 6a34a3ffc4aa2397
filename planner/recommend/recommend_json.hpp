#pragma once
// A recommendation as JSON (rigcast.recommendation/1) and as CSV.

#include <string>

#include "planner/recommend/recommend.hpp"

namespace rigcast::planner {

/// `plan_command`: the words of `rigcast plan` on the same rig, before " --model NAME".
std::string to_json(const Recommendation& recommendation, const std::string& plan_command);
/// A line a row; models that are left out have no line.
std::string to_csv(const Recommendation& recommendation);

}  // namespace rigcast::planner
