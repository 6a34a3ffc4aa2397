#pragma once
// Bytes that a step moves, by kind, for reports and for traces of its stages.

#include "engine/backends/cuda/kv/kv_state.cuh"
#include "engine/backends/cuda/weight_streaming/streamed_weights.cuh"
#include "engine/backends/cuda/weights/placed_model.cuh"
#include "engine/run/recorder.hpp"

namespace rigcast::engine::cuda {

/// The bytes of a step of `tokens` new tokens after `cached` ones. Valid while that step is the
/// last one.
struct StepBytes {
  const PlacedModel& model;
  const KvState& kv;
  const StreamedWeights& streamed;
  PrefillOffload offload;  // none in a token's step
  TokenCount cached = 0;
  std::int64_t tokens = 1;
  std::int64_t wanted = 1;  // of them, that the last layer's FFN is computed for

  /// A stage's weights, counted once, and the bytes of the cache that it reads and writes.
  double of_stage(ActivityKind kind, int layer) const;
  /// The bytes of all stages, and of copies for them.
  MovedBytes all() const;

 private:
  bool keeps_cache(int layer) const;
  TokenCount seen_here(int layer) const;
  std::int64_t ffn_tokens(int layer) const;
  double of_experts(int layer) const;
};

}  // namespace rigcast::engine::cuda
