#pragma once
// One layer's dense FFN.

#include "engine/backends/cpu/cpu_step.hpp"

namespace rigcast::engine {

class FfnStage {
 public:
  explicit FfnStage(CpuStep& step) : step_(step) {}

  /// block = the FFN's output for all tokens of the step, pending. Every member of the team calls
  /// it; it ends without a barrier.
  void compute(Worker& worker, int layer, const NextMatrices& next);

 private:
  void gate(Worker& worker, const Layer& layer, std::int64_t width);

  CpuStep& step_;
  Input gated_;
};

}  // namespace rigcast::engine
