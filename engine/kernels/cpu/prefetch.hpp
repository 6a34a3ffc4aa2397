#pragma once
// Software prefetch of weights some thousand bytes before they are multiplied, since rows follow
// one another. It is issued twice, because a processor drops prefetches while all its requests are
// in flight. Measured on Zen 4 with rows of 16 KiB: 28 GB/s with one prefetch, 32 with two, of 33
// that a plain loop reads.

#include <cstddef>

namespace rigcast::engine::cpu {

inline constexpr std::size_t kPrefetchFar = 8192, kPrefetchNear = 4096;

/// Prefetches ahead of `at`, where `bytes` bytes are multiplied now.
inline __attribute__((always_inline)) void prefetch_weights(const std::byte* at,
                                                            std::size_t bytes) {
  for (std::size_t line = 0; line < bytes; line += 64) {
    __builtin_prefetch(at + kPrefetchFar + line, 0, 2);
    __builtin_prefetch(at + kPrefetchNear + line, 0, 2);
  }
}

/// True if the prefetches of a whole row stay below `end`, from where other threads multiply:
/// memory beyond it would be read twice.
inline bool can_prefetch(const std::byte* row_end, const std::byte* end) {
  return row_end + kPrefetchFar <= end;
}

/// Prefetches for a row that is near `end`: only below `end`.
inline __attribute__((always_inline)) void prefetch_before(const std::byte* end,
                                                           const std::byte* at, std::size_t bytes) {
  if (at + kPrefetchFar < end) prefetch_weights(at, bytes);
}

/// Prefetches before the first row of [begin, end).
inline __attribute__((always_inline)) void prefetch_first_rows(const std::byte* begin,
                                                               const std::byte* end) {
  for (std::size_t line = 0; line < kPrefetchFar && begin + line < end; line += 64)
    __builtin_prefetch(begin + line, 0, 2);
}

}  // namespace rigcast::engine::cpu
