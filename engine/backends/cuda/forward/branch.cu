#include "engine/backends/cuda/forward/branch.cuh"

#include "engine/kernels/cuda/activations/elementwise.cuh"

namespace rigcast::engine::cuda {

void Branch::finish(int tokens) const {
  if (adds_) return;
  const Norm norm{post_norm_, f_.hyper().norm_eps};
  add_branch(f_.stream, {tokens, f_.hidden()},
             {hidden_, f_.buffers.vectors.normed, norm, f_.hyper().residual_scale});
}

}  // namespace rigcast::engine::cuda
