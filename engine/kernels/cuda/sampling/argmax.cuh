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
/// kernels' address of pinned memory. With a position, of the token whose logits they are, a single
/// row's id goes to on_host[position % 2], where the host has time to read it until the next but
/// one is chosen; the GPU may go on with id 0 meanwhile where none was.
struct ArgmaxResult {
  std::int32_t* on_device = nullptr;
  std::int32_t* on_host = nullptr;
  const std::int32_t* position = nullptr;

#ifdef __CUDACC__
  __device__ void put(unsigned row, std::int32_t id) const {
    if (on_device) on_device[row] = position && id == kNoToken ? 0 : id;
    if (on_host) on_host[row + (position ? *position % 2 : 0)] = id;
  }
#endif
};
/// The index of the largest of `count` logits, the lowest of equal ones; kNoToken where one is NaN.
/// For each of `rows` rows of logits, [rows][count], with a state of its own.
void argmax(const Stream& stream, const float* logits, int count, ArgmaxState* states,
            const ArgmaxResult& result, int rows = 1);

}  // namespace rigcast::engine::cuda
