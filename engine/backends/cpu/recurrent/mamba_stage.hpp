#pragma once
// One layer's Mamba 2: a projection, a convolution, the states of heads, their gate and perhaps a
// norm, and the output matrix.

#include <vector>

#include "engine/backends/cpu/recurrent/convolved_rows.hpp"
#include "engine/backends/cpu/recurrent/recurrent_states.hpp"
#include "engine/backends/cpu/step/cpu_step.hpp"
#include "engine/kernels/cpu/recurrent.hpp"

namespace rigcast::engine {

class MambaStage {
 public:
  MambaStage(CpuStep& step, RecurrentStates& states)
      : step_(step), states_(states), threads_(step.threads.size()) {}

  /// block = the mixer's output for all tokens of the step, pending; states are those after them.
  /// Every member of the team calls it; it ends without a barrier.
  void compute(Worker& worker, int layer, const NextMatrices& next);

 private:
  void project(Worker& worker, int layer);
  void convolve(Worker& worker, int layer);
  void advance_heads(Worker& worker, int layer);
  void advance_head(std::vector<cpu::DeltaToken>& tokens, int layer, const StepSequence& sequence,
                    std::int64_t head);
  void norm_groups(const Layer& layer, std::span<float> row) const;
  ConvolvedRows rows_of(int layer, const StepSequence& sequence);

  CpuStep& step_;
  RecurrentStates& states_;
  std::vector<std::vector<cpu::DeltaToken>> threads_;
  // What the matrix gives: z, x with keys and queries, time steps; the second part, convolved.
  cpu::AlignedVector<float> mixed_, convolved_, out_;
};

}  // namespace rigcast::engine
