#pragma once
// The order of logits as an order of integers.

namespace rigcast::engine::cuda {

/// Larger of larger logits, the same of -0 and 0; 0 is not among them. Not for NaN.
__device__ __forceinline__ unsigned ordered_bits(float logit) {
  const unsigned bits = __float_as_uint(logit == 0 ? 0.0f : logit);
  return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}

/// The logit of what ordered_bits gave.
__device__ __forceinline__ float logit_of_bits(unsigned ordered) {
  return __uint_as_float(ordered & 0x80000000u ? ordered ^ 0x80000000u : ~ordered);
}

/// Larger of larger logits, and of equal ones of the lower index; no two indices have the same.
__device__ __forceinline__ unsigned long long rank_of(float logit, int index) {
  return static_cast<unsigned long long>(ordered_bits(logit)) << 32 | unsigned(~index);
}

__device__ __forceinline__ int index_of_rank(unsigned long long rank) {
  return int(~unsigned(rank));
}

}  // namespace rigcast::engine::cuda
