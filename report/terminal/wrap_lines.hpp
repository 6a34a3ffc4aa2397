#pragma once
// Text whose lines are as wide as their figures, on a terminal that is narrower.

#include <string>
#include <string_view>

namespace rigcast {

/// Breaks lines of more than `width` columns at spaces; what follows is indented by `indent` more
/// than its line. Words stay whole, so that addresses can be copied. `width` 0: breaks none.
std::string wrap_lines(std::string_view text, std::size_t width, std::size_t indent);

}  // namespace rigcast
