#pragma once
// The order of logits as an order of integers.

#include "engine/kernels/cuda/sampling/no_token.hpp"

namespace rigcast::engine::cuda {

/// Larger of larger logits, the same of -0 and 0; 0 is not among them. Not for NaN.
__device__ __forceinline__ unsigned ordered_bits(float logit) {
  const unsigned bits = __float_as_uint(logit == 0 ? 0.0f : logit);
  return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}

inline constexpr unsigned kNanBits = ~0u;  // of no number: infinity's are 0xFF800000

/// The logit of what ordered_bits gave.
__device__ __forceinline__ float logit_of_bits(unsigned ordered) {
  return __uint_as_float(ordered & 0x80000000u ? ordered ^ 0x80000000u : ~ordered);
}

/// Larger of larger logits, and of equal ones of the lower index; no two indices have the same. NaN
/// is above all: where one is there, it is what is found.
__device__ __forceinline__ unsigned long long rank_of(float logit, int index) {
  const unsigned bits = isnan(logit) ? kNanBits : ordered_bits(logit);
  return static_cast<unsigned long long>(bits) << 32 | unsigned(~index);
}

/// The index of a rank, or no token where the rank is a NaN's.
__device__ __forceinline__ int index_of_rank(unsigned long long rank) {
  return unsigned(rank >> 32) == kNanBits ? kNoToken : int(~unsigned(rank));
}

}  // namespace rigcast::engine::cuda
