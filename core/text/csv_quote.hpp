#pragma once
// Texts and numbers as fields of comma-separated values (RFC 4180); core/text/csv.hpp reads them.

#include <string>
#include <string_view>

namespace rigcast {

/// The text in quotes if it contains a comma, a quote or a line break, otherwise unchanged.
std::string csv_quote(std::string_view text);

/// All digits of the number; empty where it is not finite.
std::string csv_number(double value);

}  // namespace rigcast
