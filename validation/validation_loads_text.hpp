#pragma once
// Servers' runs one by one: each figure that was measured beside its forecast.

#include <string>

#include "report/terminal/text_style.hpp"
#include "validation/validation.hpp"

namespace rigcast {

/// True if all rows are of servers and sequences in lockstep, and few enough to be read.
bool is_of_few_loads(const Validation& validation);

/// A table for each run, of a line a figure.
std::string loads_to_text(const Validation& validation, TextStyle style);

}  // namespace rigcast
