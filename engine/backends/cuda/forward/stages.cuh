#pragma once
// An interface for listeners to the stages of a step.

#include "engine/cuda/copy_tracer.cuh"
#include "engine/model/fused_blocks.hpp"
#include "report/activity.hpp"

namespace rigcast::engine::cuda {

/// Called when a stage of a step begins; the last stage ends with the step.
class StageListener : public CopyTracer {
 public:
  virtual void begin(ActivityKind kind, int layer) = 0;
};

/// The stage that computes a layer's block.
inline ActivityKind activity_of(FusedBlock block) {
  using enum FusedBlock;
  if (block == kAttention || block == kDeltaNet || block == kMamba || block == kShortConvolution)
    return ActivityKind::kAttention;
  return block == kFfn || block == kLayerInput ? ActivityKind::kFfn : ActivityKind::kExperts;
}

/// True of blocks in which tokens of a sequence read one another.
inline bool mixes_tokens(FusedBlock block) {
  return activity_of(block) == ActivityKind::kAttention;
}

}  // namespace rigcast::engine::cuda
