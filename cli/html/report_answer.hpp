#pragma once
// A report in every form that may be asked for.

#include "cli/html/page_output.hpp"
#include "report/report.hpp"

namespace rigcast::cli {

/// Refers to the report, which must outlive it.
Answer answer_of(const Report& report);

/// From now on the JSON of the answer, a report's, ends with its timelines.
void tell_timelines(Answer& answer);

}  // namespace rigcast::cli
