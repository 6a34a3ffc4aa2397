#pragma once

#include <cuda_runtime.h>

namespace rigcast::engine::cuda {

/// The tiles of 16 tokens in each split of a row that sees `tiles` of them and is wanted in so many
/// splits.
__host__ __device__ constexpr int split_tiles(int tiles, int wanted) {
  constexpr int kMin = 8, kMax = 128;
  const int even = (tiles + wanted - 1) / wanted;
  return even < kMin ? kMin : even > kMax ? kMax : even;
}

}  // namespace rigcast::engine::cuda
