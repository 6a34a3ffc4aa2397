#pragma once
// A text as a field of comma-separated values (RFC 4180); measured/csv.hpp reads them.

#include <string>
#include <string_view>

namespace rigcast {

/// In quotes if it holds a comma, a quote or the end of a line, else as it is.
std::string csv_quote(std::string_view text);

}  // namespace rigcast
