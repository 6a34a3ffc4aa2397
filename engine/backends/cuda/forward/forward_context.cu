#include "engine/backends/cuda/forward/forward_context.cuh"

#include "engine/kernels/cuda/kv/rope_and_store.cuh"

namespace rigcast::engine::cuda {

void queue_rope_angles(const ForwardContext& f, int tokens) {
  compute_rope_angles(f.stream, f.model.gpu.frequencies, f.hyper().rope_dims / 2, tokens,
                      {f.buffers.token.position}, f.buffers.vectors.rope_cos_sin);
}

NewTokenInputs new_token_inputs(const ForwardContext& f, int layer) {
  const DeviceLayer& w = f.layer(layer);
  const int q = q_width(w.attention), kv = kv_width(w.attention);
  const std::int64_t stride = qkv_width(w.attention);
  const float* const rows = f.buffers.vectors.projected;
  NewTokenInputs p;
  p.q = {rows, stride, w.q_bias};
  p.k = {rows + q, stride, w.k_bias};
  p.v = {rows + q + kv, stride, w.v_bias};
  p.heads = w.attention.heads;
  p.q_norm = w.q_norm;
  p.k_norm = w.k_norm;
  p.norm_eps = f.hyper().norm_eps;
  p.pairs = f.hyper().rope_pairs;
  p.rope_dims = f.hyper().rope_dims;
  p.rope_cos_sin = f.buffers.vectors.rope_cos_sin;
  return p;
}

}  // namespace rigcast::engine::cuda
