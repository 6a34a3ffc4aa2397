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

void ExpertsBeside::sum(float* to) const {
  const float eps = f_.hyper().norm_eps;
  const Batch batch{tokens_, f_.hidden()};
  rms_norm(f_.stream, batch, {dense(), ValueType::kF32, f_.hidden()}, {},
           {layer_.shared_post_norm, eps}, {to, ValueType::kF32, f_.hidden()});
  add_branch(f_.stream, batch, {to, chosen(), {layer_.expert_post_norm, eps}});
}

}  // namespace rigcast::engine::cuda
