#pragma once
// One layer's gated delta net: projections, a convolution, the states of heads, a gated norm, and
// the output matrix.

#include <vector>

#include "engine/backends/cpu/recurrent/convolved_rows.hpp"
#include "engine/backends/cpu/recurrent/recurrent_states.hpp"
#include "engine/backends/cpu/step/cpu_step.hpp"
#include "engine/kernels/cpu/recurrent.hpp"

namespace rigcast::engine {

class DeltaNetStage {
 public:
  DeltaNetStage(CpuStep& step, RecurrentStates& states);

  /// block = the mixer's output for all tokens of the step, pending; states are those after them.
  /// Every member of the team calls it; it ends without a barrier.
  void compute(Worker& worker, int layer, const NextMatrices& next);

 private:
  struct Thread {
    std::vector<float> keys;  // of a head's tokens: query and key
    std::vector<cpu::DeltaToken> tokens;
  };

  void project(Worker& worker, int layer);
  void split_groups(const Layer& layer, std::int64_t row);
  void convolve(Worker& worker, int layer);
  void advance_heads(Worker& worker, int layer);
  void advance_head(Thread& thread, int layer, const StepSequence& sequence, std::int64_t head);
  ConvolvedRows rows_of(int layer, const StepSequence& sequence);

  CpuStep& step_;
  RecurrentStates& states_;
  std::vector<Thread> threads_;
  cpu::AlignedVector<float> mixed_, convolved_, gate_, alpha_, beta_, out_;
  // What matrices give by groups of heads: all but the gates of states, and these.
  cpu::AlignedVector<float> by_group_, gates_by_group_;
};

}  // namespace rigcast::engine
