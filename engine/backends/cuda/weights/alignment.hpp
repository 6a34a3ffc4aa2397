#pragma once
// Alignment of matrices that share an allocation.

#include <cstddef>

namespace rigcast::engine::cuda {

/// `bytes`, rounded up to the next matrix's offset: a multiple of 256, the alignment of cudaMalloc.
constexpr std::size_t aligned(std::size_t bytes) {
  constexpr std::size_t kAlignment = 256;
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

}  // namespace rigcast::engine::cuda
