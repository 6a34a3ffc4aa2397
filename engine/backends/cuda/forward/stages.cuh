#pragma once
// Who wants to know when the stages of a step begin.

#include "engine/cuda/copy_marks.cuh"
#include "engine/model/fused_blocks.hpp"
#include "report/activity.hpp"

namespace rigcast::engine::cuda {

/// Told when a stage of a step begins; the last one ends with the step.
class Stages : public CopyMarks {
 public:
  virtual void begin(ActivityKind kind, int layer) = 0;
};

/// The stage that computes a layer's block.
inline ActivityKind activity_of(FusedBlock block) {
  if (block == FusedBlock::kAttention) return ActivityKind::kAttention;
  return block == FusedBlock::kFfn ? ActivityKind::kFfn : ActivityKind::kExperts;
}

}  // namespace rigcast::engine::cuda
