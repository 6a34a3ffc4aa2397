#pragma once
// Where a layer's attention and FFN put what they add to the hidden state.

#include "engine/backends/cuda/forward/forward_context.cuh"
#include "engine/kernels/cuda/activations/quantize_activations.cuh"

namespace rigcast::engine::cuda {

/// Products add to the hidden state itself, unless what they add is normed or scaled first: then
/// they write it beside it, where the input's norm was, and finish() adds it.
class Branch {
 public:
  /// The branch of rows from `first` on. `post_norm`: the weight of its own norm; nullptr: none.
  /// `scale`: of the sum, the layer's result.
  Branch(const ForwardContext& f, const float* post_norm, int first = 0, float scale = 1)
      : f_(f),
        post_norm_(post_norm),
        hidden_(f.hidden_row(first)),
        scale_(scale),
        adds_(!post_norm && f.hyper().residual_scale == 1 && scale == 1),
        to_(adds_ ? hidden_ : f.buffers.vectors.normed) {}

  /// Rows of the hidden state's width, the first row's first.
  float* to() const { return to_; }
  /// True: results are added to what is there. False: they replace it.
  bool adds() const { return adds_; }
  /// What a row's product is added to; nullptr: nothing.
  const float* added_to() const { return adds_ ? hidden_ : nullptr; }

  /// What is left to add to the hidden state; without a branch: nothing.
  BranchSum rest() const;
  /// Queues what is left to do for `tokens` rows.
  void finish(int tokens) const;

 private:
  const ForwardContext& f_;
  const float* post_norm_;
  float* hidden_;
  float scale_;
  bool adds_;
  float* to_;
};

/// What experts and a dense FFN beside them give, in the memory of attention's projections, before
/// either is normed and the two are added.
class ExpertsBeside {
 public:
  /// Of `tokens` rows.
  ExpertsBeside(const ForwardContext& f, const DeviceLayer& layer, int tokens)
      : f_(f), layer_(layer), tokens_(tokens) {}

  float* dense() const { return f_.buffers.vectors.projected; }
  float* chosen() const { return dense() + std::int64_t(tokens_) * f_.hidden(); }
  /// Queues to[tokens][hidden] = norm of dense() + norm of chosen().
  void sum(float* to) const;

 private:
  const ForwardContext& f_;
  const DeviceLayer& layer_;
  int tokens_;
};

}  // namespace rigcast::engine::cuda
