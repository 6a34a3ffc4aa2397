#pragma once
// Interface of a tracer of copies that run beside a step's stages.

#include "engine/cuda/cuda_stream.cuh"
#include "report/activity.hpp"

namespace rigcast::engine::cuda {

class CopyTracer {
 public:
  virtual ~CopyTracer() = default;
  /// Work queued on `stream` from here to end_copy() is one copy, for a layer of the model.
  virtual void begin_copy(ActivityKind kind, int layer, const Stream& stream) = 0;
  virtual void end_copy(const Stream& stream, double bytes) = 0;
};

}  // namespace rigcast::engine::cuda
