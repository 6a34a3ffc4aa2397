#pragma once
// Where matrices begin in memory that they share.

#include <cstddef>

namespace rigcast::engine::cuda {

/// `bytes`, up to where the next matrix can begin: at a multiple of 256, as cudaMalloc's memory
/// does.
constexpr std::size_t aligned(std::size_t bytes) {
  constexpr std::size_t kAlignment = 256;
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

}  // namespace rigcast::engine::cuda
