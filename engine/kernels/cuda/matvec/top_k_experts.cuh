#pragma once
// Device code: softmax or sigmoids, groups and top-k, which choose a token's experts from its
// router logits.

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
#if __CUDA_ARCH__ >= 800
  // One instruction for the largest of a warp's words.
  const auto high = std::uint32_t(key >> 32);
  const std::uint32_t largest = __reduce_max_sync(~0u, high);
  const std::uint32_t low = __reduce_max_sync(~0u, high == largest ? std::uint32_t(key) : 0);
  return std::uint64_t(largest) << 32 | low;
#else
  for (int d = 16; d > 0; d /= 2) {
    const auto other = __shfl_xor_sync(~0u, static_cast<unsigned long long>(key), d);
    key = other > key ? other : key;
  }
  return key;
#endif
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

__device__ inline float sigmoid(float x) { return 1 / (1 + expf(-x)); }

/// A token's logits, and room for as many scores, both in shared memory.
struct RouterScores {
  const float* logits;
  float* scores;
  int experts;
};

// The probabilities of a token's experts.
struct Probabilities {
  const RouterScores& in;
  bool sigmoids;
  Softmax softmax;

  __device__ Probabilities(const RouterScores& of, bool by_sigmoids)
      : in(of),
        sigmoids(by_sigmoids),
        softmax(by_sigmoids ? Softmax{} : softmax_of(of.logits, of.experts)) {}
  __device__ float of(int expert) const {
    return sigmoids ? sigmoid(in.logits[expert]) : softmax.of(in.logits[expert]);
  }
};

// The sum of the two best scores in the group of this lane.
template <class ScoreOf>
__device__ float group_score(int width, const ScoreOf& score_of) {
  const int lane = threadIdx.x % 32;
  float best = -INFINITY, second = -INFINITY;
  // Each lane begins elsewhere: groups are often as wide as there are banks.
  for (int i = 0, e = lane % width; i < width; ++i, e = e + 1 == width ? 0 : e + 1) {
    const float score = score_of(lane * width + e);
    const float own = isnan(score) ? -INFINITY : score;
    second = fmaxf(second, fminf(best, own));
    best = fmaxf(best, own);
  }
  return best + second;
}

// Bit set over this lane's experts: those outside of the groups with the best scores.
template <class ScoreOf>
__device__ std::uint32_t outside_groups(int experts, const ExpertRouting& routing,
                                        const ScoreOf& score_of) {
  const int lane = threadIdx.x % 32, width = experts / routing.groups;
  std::uint64_t own = lane < routing.groups ? key_of(group_score(width, score_of), lane) : 0;
  std::uint32_t kept = 0;
  for (int i = 0; i < routing.groups_used; ++i) {
    const int group = expert_of(first_of_warp(own));
    kept |= 1u << group;
    if (lane == group) own = 0;
  }
  std::uint32_t outside = 0;
  for (int e = lane, k = 0; e < experts; e += 32, ++k)
    if (!(kept >> (e / width) & 1)) outside |= 1u << k;
  return outside;
}

/// Where a token's choices are written: [used] each.
struct Choices {
  int* ids;
  float* weights;
};

/// Chooses the `used` most probable experts of a token, with one warp; lane i keeps the i-th. As
/// ref::choose_experts has it: by logits, or where there is a bias of the choice by the biased
/// probabilities; among experts of the groups that these scores choose.
__device__ inline void top_k_experts(const RouterScores& in, int used, const ChoiceRule& rule,
                                     const Choices& to) {
  const int lane = threadIdx.x % 32, experts = in.experts;
  const ExpertRouting& routing = rule.routing;
  const Probabilities probabilities(in, routing.sigmoid);
  static_assert(kMaxExperts <= 32 * 32 && kMaxExpertsPerToken <= 32 && kMaxExpertGroups <= 32);
  const float* scores = in.logits;
  if (rule.selection_bias) {
    for (int e = lane; e < experts; e += 32)
      in.scores[e] = probabilities.of(e) + rule.selection_bias[e];
    __syncwarp();
    scores = in.scores;
  }
  std::uint32_t taken = 0;  // bit set over this lane's experts: lane, lane + 32, ...
  if (routing.groups_used < routing.groups)
    taken = outside_groups(experts, routing, [&](int e) {
      return rule.selection_bias ? scores[e] : probabilities.of(e);
    });
  const auto best_of_lane = [&] {
    std::uint64_t best = 0;
    for (int e = lane, k = 0; e < experts; e += 32, ++k) {
      const std::uint64_t key = taken >> k & 1 ? 0 : key_of(scores[e], e);
      best = key > best ? key : best;
    }
    return best;
  };
  std::uint64_t best = best_of_lane();
  int chosen = 0;
  for (int i = 0; i < used; ++i) {
    const int expert = expert_of(first_of_warp(best));
    if (lane == i) chosen = expert;
    if (expert % 32 != lane) continue;
    taken |= 1u << (expert / 32);
    best = best_of_lane();
  }
  const float probability = lane < used ? probabilities.of(chosen) : 0;
  float sum = 0;
  for (int i = 0; i < used; ++i) sum += __shfl_sync(~0u, probability, i);
  if (lane >= used) return;
  constexpr float kMinSum = 0x1p-14f;
  to.ids[lane] = chosen;
  const float scale = rule.scale ? routing.scale * rule.scale[chosen] : routing.scale;
  to.weights[lane] = scale * (routing.normalised ? probability / fmaxf(sum, kMinSum) : probability);
}

}  // namespace rigcast::engine::cuda
