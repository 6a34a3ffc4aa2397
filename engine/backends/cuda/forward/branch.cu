#include "engine/backends/cuda/forward/branch.cuh"

#include "engine/kernels/cuda/activations/elementwise.cuh"

namespace rigcast::engine::cuda {

BranchSum Branch::rest() const {
  if (adds_) return {};
  const Norm norm{post_norm_, f_.hyper().norm_eps};
  return {hidden_, f_.buffers.vectors.normed, norm, f_.hyper().residual_scale, scale_};
}

void Branch::finish(int tokens) const {
  if (!adds_) add_branch(f_.stream, {tokens, f_.hidden()}, rest());
}

}  // namespace rigcast::engine::cuda
