#pragma once
// Products of a batch and a layer's weights on tensor cores: a small batch multiplies quantized
// weights directly, for a larger one they are dequantized to FP16 first.

#include <cstdint>

#include "engine/backends/cuda/forward/forward_context.cuh"
#include "engine/kernels/cuda/activations/elementwise.cuh"

namespace rigcast::engine::cuda {

/// The number of FP16 weights that a batch needs at batch.weights; 0 if products read all weights
/// in place.
std::int64_t fp16_weights_for_batch(const DeviceModel& model);

/// to = the normed hidden states of `tokens` tokens from row `first` on.
void norm_rows(const ForwardContext& f, int first, int tokens, const Norm& norm, const Rows& to);
void norm_rows(const ForwardContext& f, int first, int tokens, const float* weight, const Rows& to);

/// vectors.projected = [q | k | v] of the first rows of vectors.hidden, normed if the layer norms
/// them. Where the FFN is beside attention, the norm stays for it in the place of vectors.normed.
void project_qkv(const ForwardContext& f, const DeviceLayer& w, int tokens);

/// vectors.mixed = what a recurrent layer's first matrices give for these rows
void project_mixer(const ForwardContext& f, const DeviceLayer& w, int tokens);

/// True if add_attention_output() can take the attention output tiled (tile_order.hpp).
bool takes_tiled_attention(const ForwardContext& f, const DeviceLayer& w, int tokens);

/// vectors.hidden += output matrix times batch.x + bias, normed and scaled as the model has it.
/// `tiled`: batch.x is tiled.
void add_attention_output(const ForwardContext& f, const DeviceLayer& w, int tokens,
                          bool tiled = false);

/// The same of a recurrent layer's last matrix.
void add_mixer_output(const ForwardContext& f, const DeviceLayer& w, int tokens);

/// vectors.hidden += down times (function(gate times x) * (up times x)), normed and scaled as the
/// model has it, for x, the layer's norm of the first rows of vectors.hidden, or that of attention,
/// beside it. Without a gate: down times function(up times x), with their biases.
void add_ffn(const ForwardContext& f, const DeviceLayer& w, int tokens);

/// Rows of the hidden state's width that an FFN gives.
struct FfnRows {
  float* to = nullptr;
  bool adds = false;  // to what is there; false: in place of it
};
/// out (+)= the layer's shared expert of the rows at batch.x, which it overwrites.
void multiply_shared_expert(const ForwardContext& f, const DeviceLayer& w, int tokens,
                            const FfnRows& out);

/// Makes the inputs of all layers for tokens whose embeddings are the first rows of vectors.hidden;
/// nothing for models without them. `ids` are on the GPU.
void make_layer_inputs(const ForwardContext& f, const std::int32_t* ids, int tokens);

/// vectors.hidden += what the tokens' inputs of the layer add, normed, and then scaled
void add_layer_input(const ForwardContext& f, const DeviceLayer& w, int layer, int tokens);

/// logits[rows][vocabulary] = head times the first rows of batch.x, in the model's range. The head:
/// F16 or quantized.
void multiply_head(const ForwardContext& f, int rows, float* logits);

}  // namespace rigcast::engine::cuda
