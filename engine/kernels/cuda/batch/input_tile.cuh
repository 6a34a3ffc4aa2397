#pragma once
// Device code: 128 columns of several tokens' activations, as F16 in shared memory.

#include <cuda_fp16.h>

#include "engine/kernels/cuda/batch/weight_tile.cuh"
#include "engine/kernels/cuda/matvec/lane_loads.cuh"

namespace rigcast::engine::cuda {

template <int kTokens>
struct InputTile {
  static constexpr int kRowBytes = kTileUnits * 64;
  static constexpr int kChunks = kRowBytes / 16;
  static constexpr int kBytes = kTokens * kRowBytes;

  // The layout puts the same 16 columns of tokens that are loaded together into different banks.
  __device__ static __forceinline__ int place_of(int token, int sixteen) {
    return token * kRowBytes + (sixteen ^ (token & 3)) * 32;
  }

  /// Starts the copies of units [unit, unit + 4) of rows[token] of x, for tokens below `count`,
  /// with `threads` threads. Units past a row's `units` are zeros.
  __device__ static __forceinline__ void fetch(std::byte* stage, const __half* x, const int* rows,
                                               int count, int units, int unit, int thread,
                                               int threads) {
    const int left = (units - unit) * 4;  // chunks
    const int chunk = thread % kChunks;
    std::byte* const to = stage + chunk % 2 * 16;
    const __half* const from = x + unit * 32 + chunk * 8;
#pragma unroll 4
    for (int token = thread / kChunks; token < count; token += threads / kChunks) {
      std::byte* const place = to + place_of(token, chunk / 2);
      if (chunk < left)
        copy_async<16>(place,
                       reinterpret_cast<const std::uint8_t*>(
                           from + std::size_t(unsigned(rows[token]) * unsigned(units)) * 32));
      else
        *reinterpret_cast<uint4*>(place) = {};
    }
  }

  /// Columns 4 t to 4 t + 3 of the 16 columns from 16 * `sixteen` on, of token g of the 8 tokens
  /// from `token` on.
  __device__ static __forceinline__ uint2 load(const std::byte* stage, int token, int sixteen,
                                               int lane) {
    return *reinterpret_cast<const uint2*>(stage + place_of(token + lane / 4, sixteen) +
                                           lane % 4 * 8);
  }
};

}  // namespace rigcast::engine::cuda
