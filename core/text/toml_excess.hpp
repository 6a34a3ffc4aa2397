#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

namespace rigcast {

/// Dots in the longest key that is read. toml++ bounds how deep values nest, not how many parts a
/// key has, and every part is a table inside a table: freeing a hundred thousand overflows the
/// stack.
inline constexpr std::ptrdiff_t kMaxKeyDots = 16;

/// [table] and [[table]] headers that are read: toml++ looks for each in a list of those before it.
inline constexpr std::ptrdiff_t kMaxTableHeaders = 20'000;

struct TextPosition {
  int line = 1;
  int column = 1;
};

/// What toml++ would take too long, or too much of the stack, to read.
struct TomlExcess {
  TextPosition at;
  const char* message;
};

/// The first key with more dots, or the first header, than is read; nullopt if there is none.
std::optional<TomlExcess> find_toml_excess(std::string_view toml);

}  // namespace rigcast
