#pragma once
// The next token by chance, chosen where the logits lie.

#include <cstdint>

#include "engine/cuda/cuda_stream.cuh"
#include "engine/kernels/cuda/sampling/argmax.cuh"

namespace rigcast::engine::cuda {

constexpr int kMostDrawnFrom = 1024;  // the largest top_k

/// What a draw depends on beside the logits, in the words of engine::Sampling.
struct Draw {
  float temperature = 1;  // more than 0
  int top_k = 1;          // in [1, kMostDrawnFrom]; more than there are logits: all
  float top_p = 1;
  std::uint64_t seed = 0;
  std::uint64_t number = 0;  // of draws before this one
  bool operator==(const Draw&) const = default;
};

/// What sample works in, on the GPU: all zeros but for `draw` at first, and after every run.
struct SampleState {
  static constexpr int kBins = 4096;
  static constexpr int kMostSorted = 2048;  // twice as many as are drawn from

  Draw draw;
  alignas(16) unsigned counts[kBins];  // of ranks by their highest bits
  unsigned collected;
  unsigned done;                               // blocks
  unsigned long long candidates[kMostSorted];  // ranks
};

/// Queues the choice of one of `count` logits: that of Sampler::next with the same logits and
/// state->draw, whose number grows by one. Exponentials of the host and of the GPU may differ in
/// their last place, so that a random number within 1e-15 or so of a border between two tokens may
/// give the one here and the other there. kNoToken where a logit is NaN.
/// `logits`: on the GPU. Not waited for. Throws CudaFailure.
void sample(const Stream& stream, const float* logits, int count, SampleState* state,
            const ArgmaxResult& result);

}  // namespace rigcast::engine::cuda
