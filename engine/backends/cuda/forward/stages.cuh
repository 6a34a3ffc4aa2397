#pragma once
// Who wants to know when the stages of a step begin.

#include "engine/cuda/copy_marks.cuh"
#include "report/activity.hpp"

namespace rigcast::engine::cuda {

/// Told when a stage of a step begins; the last one ends with the step.
class Stages : public CopyMarks {
 public:
  virtual void begin(ActivityKind kind, int layer) = 0;
};

}  // namespace rigcast::engine::cuda
