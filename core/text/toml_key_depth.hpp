#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

namespace rigcast {

/// Dots in the longest key that is read. toml++ bounds how deep values nest, not how many parts a
/// key has, and every part is a table inside a table: freeing a hundred thousand overflows the
/// stack.
inline constexpr std::ptrdiff_t kMaxKeyDots = 16;

struct TextPosition {
  int line = 1;
  int column = 1;
};

/// The position at which the first key exceeds the allowed number of dots; nullopt if none does.
std::optional<TextPosition> overlong_key(std::string_view toml);

}  // namespace rigcast
