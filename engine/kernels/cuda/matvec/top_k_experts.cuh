#pragma once
// Device code: softmax and top-k, which choose a token's experts from its router logits.

#include <cstdint>

#include "engine/kernels/cuda/activations/quantize_device.cuh"
#include "engine/kernels/cuda/matvec/chosen_experts.cuh"

namespace rigcast::engine::cuda {

// A sort key: larger is chosen first. Ordered by logit, NaN last, then by lower index. 0 stands for
// none.
__device__ inline std::uint64_t key_of(float logit, int expert) {
  const std::uint32_t bits = __float_as_uint(logit + 0.0f);  // adding 0 turns -0 into 0
  const std::uint32_t ordered = bits >> 31 ? ~bits : bits | 0x80000000;
  return std::uint64_t(isnan(logit) ? 0 : ordered) << 32 | ~std::uint32_t(expert);
}
__device__ inline int expert_of(std::uint64_t key) { return int(~std::uint32_t(key)); }

__device__ inline std::uint64_t first_of_warp(std::uint64_t key) {
  for (int d = 16; d > 0; d /= 2) {
    const auto other = __shfl_xor_sync(~0u, static_cast<unsigned long long>(key), d);
    key = other > key ? other : key;
  }
  return key;
}

struct Softmax {
  float largest, sum;
  __device__ float of(float logit) const { return expf(logit - largest) / sum; }
};
__device__ inline Softmax softmax_of(const float* logits, int experts) {
  Softmax s{-INFINITY, 0};
  const int lane = threadIdx.x % 32;
  for (int e = lane; e < experts; e += 32) s.largest = fmaxf(s.largest, logits[e]);
  s.largest = max_over_lanes(s.largest, 32);
  for (int e = lane; e < experts; e += 32) s.sum += expf(logits[e] - s.largest);
  for (int d = 16; d > 0; d /= 2) s.sum += __shfl_xor_sync(~0u, s.sum, d);
  return s;
}

/// Where a token's choices are written: [used] each.
struct Choices {
  int* ids;
  float* weights;
};

/// Chooses the `used` most probable experts of a token, with one warp; lane i keeps the i-th.
/// logits[experts] is in shared memory.
__device__ inline void top_k_experts(const float* logits, int experts, int used, bool normalised,
                                     const Choices& to) {
  const int lane = threadIdx.x % 32;
  const Softmax softmax = softmax_of(logits, experts);
  static_assert(kMaxExperts <= 32 * 32 && kMaxExpertsPerToken <= 32);
  std::uint32_t taken = 0;  // bit set over this lane's experts: lane, lane + 32, ...
  int chosen = 0;
  float probability = 0, sum = 0;
  for (int i = 0; i < used; ++i) {
    std::uint64_t first = 0;
    for (int e = lane, k = 0; e < experts; e += 32, ++k) {
      const std::uint64_t key = taken >> k & 1 ? 0 : key_of(logits[e], e);
      first = key > first ? key : first;
    }
    const int expert = expert_of(first_of_warp(first));
    if (expert % 32 == lane) taken |= 1u << (expert / 32);
    const float p = softmax.of(logits[expert]);
    sum += p;
    if (lane == i) chosen = expert, probability = p;
  }
  if (lane >= used) return;
  to.ids[lane] = chosen;
  to.weights[lane] = normalised ? probability / sum : probability;
}

}  // namespace rigcast::engine::cuda
