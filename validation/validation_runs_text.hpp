#pragma once
// Forecasts that were run, for people: every configuration's figures, then how far off they are.

#include <string>

#include "report/terminal/text_style.hpp"
#include "validation/validation.hpp"

namespace rigcast {

/// Every configuration's figures, and by how much they miss.
std::string runs_to_text(const Validation& validation, TextStyle style);

}  // namespace rigcast
