#pragma once
// The validation for people: how far off by kind of placement, then what is farthest off, then what
// was left out.

#include <string>

#include "report/terminal/text_style.hpp"
#include "validation/validation.hpp"

namespace rigcast {

/// The summary, the rows farthest off, what was skipped and why.
std::string to_text(const Validation& validation, TextStyle style);

}  // namespace rigcast
