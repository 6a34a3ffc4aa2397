#pragma once

#include <cstdint>

namespace rigcast::engine::cuda {

/// Whether matvec gives every warp rows of its own. With fewer than 44 rows a multiprocessor (4
/// blocks of 11 rows) many multiprocessors would have few warps: then some share a row.
constexpr bool has_many_rows(std::int64_t rows, int multiprocessors) {
  constexpr std::int64_t kRowsOfMultiprocessor = 4 * 11;
  return rows >= kRowsOfMultiprocessor * multiprocessors;
}

}  // namespace rigcast::engine::cuda
