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

/// Where the ids are written, one for each row of logits; either may be null. `on_host` is the
/// kernels' address of pinned memory.
struct ArgmaxResult {
  std::int32_t* on_device = nullptr;
  std::int32_t* on_host = nullptr;
};
/// The index of the largest of `count` logits, the lowest of equal ones; kNoToken where one is NaN.
/// For each of `rows` rows of logits, [rows][count], with a state of its own.
void argmax(const Stream& stream, const float* logits, int count, ArgmaxState* states,
            const ArgmaxResult& result, int rows = 1);

}  // namespace rigcast::engine::cuda
