#pragma once
// Random sampling of the next token on the GPU that has the logits.

#include <cstdint>

#include "engine/cuda/cuda_stream.cuh"
#include "engine/kernels/cuda/sampling/argmax.cuh"

namespace rigcast::engine::cuda {

constexpr int kMaxTopK = 1024;  // the largest top_k

/// The parameters of one draw, in the terms of engine::Sampling.
struct SamplingParams {
  float temperature = 1;  // more than 0; 0: nothing is drawn
  int top_k = 1;          // in [1, kMaxTopK]; more than there are logits: all
  float top_p = 1;
  std::uint64_t seed = 0;
  std::uint64_t number = 0;  // number of draws before this one
  bool operator==(const SamplingParams&) const = default;
};

/// The state of sample() on the GPU: all zeros but for `params` at first, and after every run.
struct SampleState {
  static constexpr int kBins = 4096;
  static constexpr int kMaxSorted = 2048;  // twice the largest top_k

  SamplingParams params;
  alignas(16) unsigned counts[kBins];  // histogram of the ranks' highest bits
  unsigned collected;
  unsigned done;                              // blocks
  unsigned long long candidates[kMaxSorted];  // ranks
};

/// Queues the choice of one of `count` logits: the choice of Sampler::next for the same logits and
/// state->draw, whose number grows by one. Exponentials of host and GPU may differ in the last
/// place, so a random number within about 1e-15 of a border between two tokens may choose
/// differently. kNoToken where a logit is NaN. `logits` is in GPU memory. Does not wait. Throws
/// CudaFailure. For each of `rows` rows of logits, [rows][count], with a state of its own; a row
/// whose temperature is 0 is left out: nothing is written for it.
void sample(const Stream& stream, const float* logits, int count, SampleState* states,
            const ArgmaxResult& result, int rows = 1);

}  // namespace rigcast::engine::cuda
