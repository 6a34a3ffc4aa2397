#pragma once
// Comma-separated values as RFC 4180 has them: quoted fields may hold commas, quotes and lines.

#include <string>
#include <string_view>
#include <vector>

#include "core/base/error.hpp"

namespace rigcast {

struct CsvField {
  std::string text;
  int line = 0;
  int column = 0;  // where the field begins, in bytes from 1
};

using CsvRow = std::vector<CsvField>;

/// All rows, the header's included; blank lines are none. A byte order mark is skipped, lines end
/// in LF or CRLF. Errors: a quote that is not closed, or text beside a quoted field.
Result<std::vector<CsvRow>> parse_csv(std::string_view text, const std::string& file);

}  // namespace rigcast
