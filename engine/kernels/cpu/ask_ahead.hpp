#pragma once
// Weights are asked of memory some thousand bytes before they are multiplied: rows lie one after
// the other, and what is past the last costs nothing but the asking. Twice, since a processor drops
// what it is asked for while all its requests are under way; measured on Zen 4: 28 GB/s asked once,
// 32 asked twice, rows of 16 KiB, of 33 that a plain loop reads.

#include <cstddef>

namespace rigcast::engine::cpu {

inline constexpr std::size_t kAskFirst = 8192, kAskAgain = 4096;

/// `bytes` bytes from `at` on are multiplied now.
inline __attribute__((always_inline)) void ask_ahead(const std::byte* at, std::size_t bytes) {
  for (std::size_t line = 0; line < bytes; line += 64) {
    __builtin_prefetch(at + kAskFirst + line, 0, 2);
    __builtin_prefetch(at + kAskAgain + line, 0, 2);
  }
}

/// Whether a row that ends at `row_end` asks ahead, where others multiply what lies from `end` on:
/// asked for here, too, that would be read twice. What the last rows need was asked for before.
inline bool asks_ahead(const std::byte* row_end, const std::byte* end) {
  return row_end + kAskFirst <= end;
}

/// Before the first row of [begin, end).
inline __attribute__((always_inline)) void ask_first(const std::byte* begin, const std::byte* end) {
  for (std::size_t line = 0; line < kAskFirst && begin + line < end; line += 64)
    __builtin_prefetch(begin + line, 0, 2);
}

}  // namespace rigcast::engine::cpu
