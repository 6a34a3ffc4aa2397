#pragma once
// The report's JSON read back.

#include <memory>
#include <string_view>

#include "core/base/error.hpp"
#include "report/report.hpp"

namespace rigcast {

/// What to_json wrote, as the report of `scenario` (nullptr: of none), of which the JSON tells only
/// what people ask about. What a report lacks is zero, what is no number there is not a number.
/// Errors: another schema, or a figure of another kind, with its path.
Result<Report> report_from_json(std::string_view text, std::shared_ptr<const Scenario> scenario);

}  // namespace rigcast
