#pragma once
// Bytes that a step moves, by what they are: what reports say of it, and traces of its stages.

#include "engine/backends/cuda/kv/kv_state.cuh"
#include "engine/backends/cuda/weight_streaming/streamed_weights.cuh"
#include "engine/backends/cuda/weights/placed_model.cuh"
#include "engine/run/recorder.hpp"

namespace rigcast::engine::cuda {

/// Of `tokens` new tokens behind `cached` ones, while that step is the last one.
struct StepBytes {
  const PlacedModel& model;
  const KvState& kv;
  const StreamedWeights& streamed;
  BatchWay way;  // a token's has none
  TokenCount cached = 0;
  std::int64_t tokens = 1;

  /// A stage's weights once, and what it reads and writes of the cache.
  double of_stage(ActivityKind kind, int layer) const;
  /// Of all stages, and what was copied for them.
  MovedBytes all() const;

 private:
  bool keeps_cache(int layer) const;
  TokenCount seen_here(int layer) const;
  double of_experts(int layer) const;
};

}  // namespace rigcast::engine::cuda
