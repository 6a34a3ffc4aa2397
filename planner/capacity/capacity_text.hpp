#pragma once
// A server's capacity as a table for people.

#include <string>

#include "planner/capacity/capacity_report.hpp"
#include "report/terminal/text_style.hpp"

namespace rigcast::planner {

/// The answer, the figures around it, what to change.
std::string to_text(const CapacityReport& report, TextStyle style);

}  // namespace rigcast::planner
