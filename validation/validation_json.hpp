#pragma once
// Validations for programs: JSON, and CSV with one line a row.

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "validation/bars.hpp"
#include "validation/validation.hpp"

namespace rigcast {

/// "rigcast.validation/1", indented by two spaces; with verdicts, "bars", "speed_intervals",
/// "largest_errors" and "activity_summary".
std::string to_json(const Validation& validation, std::span<const BarVerdict> verdicts);
std::string to_json(const Validation& validation);
/// A header line, then one line per row.
std::string to_csv(const Validation& validation);
/// A list of what "activities" holds.
std::string to_json(std::span<const ActivityRow> activities);
/// Reads such a list; elements that are not activities are skipped.
std::vector<ActivityRow> activities_from_json(std::string_view text);

}  // namespace rigcast
