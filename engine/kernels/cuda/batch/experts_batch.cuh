#pragma once
// The experts of a batch's tokens: who goes to whom, in which order, and the sum of what comes
// back. Everything is queued, on the GPU alone; launches are kEarly.

#include <cstdint>

#include "engine/cuda/cuda_stream.cuh"
#include "engine/kernels/cuda/matvec/matvec.cuh"

namespace rigcast::engine::cuda {

/// Up to group_tokens tokens of one expert.
struct ExpertGroup {
  int expert = 0;
  int first = 0, count = 0;  // of `order`
};

/// On the device. A choice is token * used + i: the i-th expert of a token.
struct ExpertGroups {
  ChosenExperts chosen;           // ids and weights [tokens][used]
  int* counts = nullptr;          // [experts]: choices of each
  int* order = nullptr;           // [tokens * used]: choices by expert, then ascending
  ExpertGroup* groups = nullptr;  // [most_groups]
  int* group_count = nullptr;     // how many there are, or more
  int tokens = 0, experts = 0;
  int group_tokens = 0;  // 16, 32 or 64
  int at_most = 0;       // groups that products look at; 0: as many as there can be
};

inline constexpr int kLeastGroupTokens = 16;
/// What suits batches of so many tokens.
int group_tokens_for(int tokens, int used, int experts);
/// Groups that `tokens` tokens make at most, however they choose.
int most_groups(int tokens, int used, int experts, int group_tokens);

/// Chooses as route() does, for each row of x[tokens][columns]; then everything else of `groups`.
/// router.logits: [tokens][experts]; router.arrivals is not used.
void route_batch(const Router& router, const float* x, const ExpertGroups& groups,
                 const Stream& stream);

/// hidden[token][width] += sum over i of weight i * rows[token * used + i][width], i ascending.
/// width: a multiple of 4.
void add_experts(const ExpertGroups& groups, const float* rows, int width, float* hidden,
                 const Stream& stream);

}  // namespace rigcast::engine::cuda
