#pragma once
// Maps the order of logits to an order of integers.

#include "engine/kernels/cuda/sampling/no_token.hpp"

namespace rigcast::engine::cuda {

/// Monotonic in the logit, and equal for -0 and 0; never 0. Not for NaN.
__device__ __forceinline__ unsigned ordered_bits(float logit) {
  const unsigned bits = __float_as_uint(logit == 0 ? 0.0f : logit);
  return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}

inline constexpr unsigned kNanBits = ~0u;  // above all numbers: infinity has 0xFF800000

/// The inverse of ordered_bits().
__device__ __forceinline__ float logit_of_bits(unsigned ordered) {
  return __uint_as_float(ordered & 0x80000000u ? ordered ^ 0x80000000u : ~ordered);
}

/// A rank that grows with the logit, and for equal logits is larger for the lower index; no two
/// indices have the same rank. NaN ranks above all numbers: if there is one, it is found.
__device__ __forceinline__ unsigned long long rank_of(float logit, int index) {
  const unsigned bits = isnan(logit) ? kNanBits : ordered_bits(logit);
  return static_cast<unsigned long long>(bits) << 32 | unsigned(~index);
}

/// The index of a rank, or kNoToken for the rank of a NaN.
__device__ __forceinline__ int index_of_rank(unsigned long long rank) {
  return unsigned(rank >> 32) == kNanBits ? kNoToken : int(~unsigned(rank));
}

}  // namespace rigcast::engine::cuda
