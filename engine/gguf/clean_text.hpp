#pragma once

#include <string>
#include <string_view>

namespace rigcast::engine {

/// The text of a file as others may print it: UTF-8, each run of control characters as one blank,
/// each byte that is no UTF-8 as "?".
std::string clean_text(std::string_view text);

}  // namespace rigcast::engine
