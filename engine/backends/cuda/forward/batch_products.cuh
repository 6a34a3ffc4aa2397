#pragma once
// Products of a batch with a layer's weights on the tensor cores: a short batch takes quantized
// weights as they lie, a long one has them written out as halves.

#include <cstdint>

#include "engine/backends/cuda/forward/forward_context.cuh"
#include "engine/kernels/cuda/activations/elementwise.cuh"

namespace rigcast::engine::cuda {

/// Halves of weights that a batch needs at batch.weights; 0 where all lie as products take them.
std::int64_t halves_for_batch(const DeviceModel& model);

/// to = the hidden states of `tokens` tokens from row `first` on, normed.
void norm_rows(const ForwardContext& f, int first, int tokens, const float* weight, const Rows& to);

/// vectors.projected = [q | k | v] of batch.x
void project_qkv(const ForwardContext& f, const DeviceLayer& w, int tokens);

/// vectors.hidden += output matrix times batch.x + bias
void add_attention_output(const ForwardContext& f, const DeviceLayer& w, int tokens);

/// vectors.hidden += down times (silu(gate times batch.x) * (up times batch.x))
void add_ffn(const ForwardContext& f, const DeviceLayer& w, int tokens);

}  // namespace rigcast::engine::cuda
