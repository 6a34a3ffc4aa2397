#pragma once
// The experts of a batch's tokens: which tokens each expert computes, in which order, and the
// weighted sum of the results. All work is queued on the GPU; launches are kEarly.

#include <cuda_fp16.h>

#include <cstdint>

#include "engine/cuda/cuda_stream.cuh"
#include "engine/kernels/cuda/matvec/chosen_experts.cuh"
#include "engine/kernels/cuda/matvec/router.cuh"

namespace rigcast::engine::cuda {

/// Up to group_tokens tokens of one expert.
struct ExpertGroup {
  int expert = 0;
  int first = 0, count = 0;  // indices into `order`
};

/// Pointers to device memory. A choice, token * used + i, is the i-th expert of a token.
struct ExpertGroups {
  ChosenExperts chosen;           // ids and weights [tokens][used]
  int* counts = nullptr;          // [experts]: choices of each
  int* order = nullptr;           // [tokens * used]: choices, sorted by expert and then by index
  ExpertGroup* groups = nullptr;  // [most_groups]
  int* group_count = nullptr;     // the number of groups
  int tokens = 0, experts = 0;
  int group_tokens = 0;  // 8 (tiled_experts.cuh), 16, 32 or 64
  int first = 0;         // the first group that is visited
  int at_most = 0;       // the number of groups that are visited from it on; 0: all that can exist
};

inline constexpr int kMinGroupTokens = 8;
/// The group size that suits batches of `tokens` tokens.
int group_tokens_for(int tokens, int used, int experts);
/// The largest number of groups that `tokens` tokens can form, whatever their choices.
int most_groups(int tokens, int used, int experts, int group_tokens);
/// The number of groups that a launch visits at most.
int visited_groups(const ExpertGroups& groups);

/// Chooses experts as route() does, for each row of x[tokens][columns]; then fills the rest of
/// `groups`. router.logits: [tokens][experts]; router.arrivals is not used. router.shared.weight:
/// [tokens].
void route_batch(const Router& router, const float* x, const ExpertGroups& groups,
                 const Stream& stream);

/// router.weight[token] = the weight of the shared expert for each row of x[tokens][columns], if
/// there is such a router.
void weigh_shared_expert(const SharedRouter& router, const float* x, int columns, int tokens,
                         const Stream& stream);

/// rows[token][width] *= the weight of the token's only expert; where `halves` is given, the same
/// in F16 there, clamped to +-65504. width: a multiple of 4.
void weigh_inputs(const ExpertGroups& groups, float* rows, int width, __half* halves,
                  const Stream& stream);

/// Where the weighted sums of experts go: [token][width].
struct ExpertSums {
  float* to = nullptr;
  int width = 0;     // a multiple of 4
  bool adds = true;  // to what is there
};
/// to[token][width] (+)= sum over i of weight i * rows[token * used + i][width], i ascending.
/// Without groups.chosen.weights, each is 1.
void add_experts(const ExpertGroups& groups, const float* rows, const ExpertSums& sums,
                 const Stream& stream);

}  // namespace rigcast::engine::cuda
