#pragma once

#include <string>
#include <string_view>

namespace rigcast::engine {

/// A file's text, made safe to print: valid UTF-8, each run of control characters as one blank,
/// each invalid byte as "?".
std::string clean_text(std::string_view text);

}  // namespace rigcast::engine
