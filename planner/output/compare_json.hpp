#pragma once
// A comparison as JSON and CSV: "rigcast.comparison/1" (docs/report.md).

#include <string>

#include "planner/compare.hpp"

namespace rigcast::planner {

/// "rigcast.comparison/1", indented by two spaces.
std::string to_json(const Comparison& comparison);
/// One line per rig and model.
std::string to_csv(const Comparison& comparison);

}  // namespace rigcast::planner
