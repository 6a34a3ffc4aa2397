#pragma once
// A recommendation as a table for people.

#include <string>

#include "planner/recommend/recommend.hpp"
#include "report/terminal/text_style.hpp"

namespace rigcast::planner {

/// "rigcast plan --rig this --context 16384 --model qwen3-8b": the words, the row's context where
/// a plan would take another, and its model.
std::string plan_command_of(const Recommendation& recommendation, const Recommended& row,
                            const std::string& plan_command);

/// "41 of 186 models; the others: 101 too slow, 44 too large".
std::string count_text(const Recommendation& recommendation);

std::string to_text(const Recommendation& recommendation, const std::string& plan_command,
                    TextStyle style);

}  // namespace rigcast::planner
