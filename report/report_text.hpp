#pragma once
// The report for people.

#include <string>

#include "report/report.hpp"
#include "report/terminal/text_style.hpp"

namespace rigcast {

/// The answer, the reason, what to do.
std::string to_text(const Report& report, TextStyle style);

}  // namespace rigcast
