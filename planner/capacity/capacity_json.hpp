#pragma once
// A server's capacity for scripts: `capacity/1` of docs/report.md.

#include <string>

#include "planner/capacity/capacity_report.hpp"

namespace rigcast::planner {

std::string to_json(const CapacityReport& report);

}  // namespace rigcast::planner
