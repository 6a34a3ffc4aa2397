#pragma once
// A server's capacity as a table.

#include <string>

#include "planner/capacity/capacity_report.hpp"

namespace rigcast::planner {

/// A row for each load that was tried; `is_capacity` has the most of it that meets the limits.
std::string to_csv(const CapacityReport& report);

}  // namespace rigcast::planner
