#pragma once

#include <cstdint>

namespace rigcast::engine::cuda {

/// Whether matvec gives every warp rows of its own. With fewer than 44 rows a multiprocessor (4
/// blocks of 11 rows) many multiprocessors would have few warps: then some share a row.
constexpr bool has_many_rows(std::int64_t rows, int multiprocessors) {
  constexpr std::int64_t kRowsOfMultiprocessor = 4 * 11;
  return rows >= kRowsOfMultiprocessor * multiprocessors;
}

/// Whether fewer rows have thread blocks of 8 each for more than four, and at most five, on every
/// multiprocessor: four at once would take two rounds, the second with most places empty.
constexpr bool needs_fifth_block(std::int64_t rows, int multiprocessors) {
  const std::int64_t blocks = (rows + 7) / 8;
  return blocks > 4 * multiprocessors && blocks <= 5 * multiprocessors;
}

}  // namespace rigcast::engine::cuda
