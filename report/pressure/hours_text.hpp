#pragma once
// The hours of a timeline on the screen.

#include <string>
#include <vector>

#include "report/pressure/hours.hpp"

namespace rigcast {

/// "4 h 30 min", "12 min", "30 s".
std::string hours_text(Seconds time);

/// When the first page leaves, what pays and what that costs; "" where memory suffices.
std::string pressure_text(const Hours& hours);

/// A chart of each session's tokens/s, and a table of the moments at which something changes, at
/// most `rows` of them. Lines of at most `width` cells.
std::vector<std::string> hours_lines(const Hours& hours, std::size_t width, std::size_t rows);

}  // namespace rigcast
