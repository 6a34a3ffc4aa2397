#pragma once
// The table of a comparison.

#include <string>

#include "planner/compare.hpp"
#include "report/terminal/text_style.hpp"

namespace rigcast::planner {

/// One table per model, and the verdict.
std::string to_text(const Comparison& comparison, const Workload& workload, TextStyle style);

}  // namespace rigcast::planner
