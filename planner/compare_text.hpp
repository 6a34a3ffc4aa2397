#pragma once
// The table of a comparison.

#include <optional>
#include <string>
#include <vector>

#include "planner/compare.hpp"
#include "report/terminal/text_style.hpp"

namespace rigcast::planner {

/// One table per model, and the verdict.
std::string to_text(const std::vector<ComparedRig>& rigs, std::optional<double> budget,
                    const std::string& verdict, const Workload& workload, TextStyle style);

}  // namespace rigcast::planner
