#pragma once
// Texts and numbers as fields of comma-separated values (RFC 4180); core/text/csv.hpp reads them.

#include <string>
#include <string_view>

namespace rigcast {

/// In quotes if it holds a comma, a quote or the end of a line, else as it is.
std::string csv_quote(std::string_view text);

/// All digits of the number; empty where it is not finite.
std::string csv_number(double value);

}  // namespace rigcast
