#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

namespace rigcast {

/// Dots in the longest key that is read. toml++ bounds how deep values nest, not how many parts a
/// key has, and every part is a table inside a table: freeing a hundred thousand overflows the
/// stack.
inline constexpr std::ptrdiff_t kMostKeyDots = 16;

struct TextPosition {
  int line = 1;
  int column = 1;
};

/// Where the first key with more dots begins to have too many; nullopt if all are shorter.
std::optional<TextPosition> overlong_key(std::string_view toml);

}  // namespace rigcast
