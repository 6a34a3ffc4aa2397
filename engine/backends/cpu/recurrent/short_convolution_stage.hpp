#pragma once
// One layer's short convolution between two gates.

#include "engine/backends/cpu/recurrent/convolved_rows.hpp"
#include "engine/backends/cpu/recurrent/recurrent_states.hpp"
#include "engine/backends/cpu/step/cpu_step.hpp"

namespace rigcast::engine {

class ShortConvolutionStage {
 public:
  ShortConvolutionStage(CpuStep& step, RecurrentStates& states) : step_(step), states_(states) {}

  /// block = the mixer's output for all tokens of the step, pending; states are those after them.
  /// Every member of the team calls it; it ends without a barrier.
  void compute(Worker& worker, int layer, const NextMatrices& next);

 private:
  void project(Worker& worker, int layer);
  ConvolvedRows rows_of(int layer, const StepSequence& sequence);

  CpuStep& step_;
  RecurrentStates& states_;
  cpu::AlignedVector<float> mixed_, gated_, out_;  // b, c and x; b * x; the result
};

}  // namespace rigcast::engine
