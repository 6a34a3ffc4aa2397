#pragma once
// Greedy sampling: the token with the largest logit.

#include <cstdint>

#include "engine/cuda/cuda_stream.cuh"
#include "engine/kernels/cuda/sampling/no_token.hpp"

namespace rigcast::engine::cuda {

/// The state of argmax; zeros at first, and after every run.
struct ArgmaxState {
  unsigned long long best = 0;
  unsigned done = 0;
};

/// Where the token's id is written; either may be null. `on_host` is the kernels' address of pinned
/// memory.
struct ArgmaxResult {
  std::int32_t* on_device = nullptr;
  std::int32_t* on_host = nullptr;
};
/// The index of the largest of `count` logits, the lowest of equal ones; kNoToken where one is NaN.
void argmax(const Stream& stream, const float* logits, int count, ArgmaxState* state,
            const ArgmaxResult& result);

}  // namespace rigcast::engine::cuda
