#pragma once
// Texts of 2 MB that are designed to take long, and the time limit for reading one.

#include <ctime>
#include <string>
#include <string_view>

#include "tests/catch.hpp"

namespace rigcast::fixtures {

inline constexpr std::size_t kHostileBytes = 2'000'000;
#if defined(__SANITIZE_ADDRESS__)
inline constexpr double kMaxHostileSeconds = 60;
#else
inline constexpr double kMaxHostileSeconds = 5;
#endif

inline std::string many(std::string_view piece, std::size_t bytes = kHostileBytes) {
  std::string text;
  text.reserve(bytes + piece.size());
  while (text.size() < bytes) text += piece;
  return text;
}

/// make(0), make(1), ... as far as they go.
template <class Make>
std::string counted(const Make& make, std::size_t bytes = kHostileBytes) {
  std::string text;
  for (std::size_t i = 0; text.size() < bytes; ++i) text += make(std::to_string(i));
  return text;
}

/// Seconds of processor time; other programs do not count.
template <class Read>
void check_quick(const Read& read) {
  const std::clock_t begun = std::clock();
  read();
  CHECK(double(std::clock() - begun) / CLOCKS_PER_SEC < kMaxHostileSeconds);
}

}  // namespace rigcast::fixtures
