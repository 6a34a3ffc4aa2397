#pragma once
// Arguments of a layer's kernels: weights, buffers, and the stream on which they are queued. The KV
// cache, and what the host computes, are not part of it.

#include "engine/backends/cuda/forward/buffers.cuh"
#include "engine/backends/cuda/weights/placed_model.cuh"
#include "engine/cuda/cublas/matmul.cuh"
#include "engine/cuda/cuda_stream.cuh"
#include "engine/kernels/cuda/kv/new_tokens.cuh"

namespace rigcast::engine::cuda {

struct ForwardContext {
  const PlacedModel& model;
  const Stream& stream;
  const Matmul& matmul;
  const Buffers& buffers;

  const ModelSpec& spec() const { return model.spec(); }
  const Hyperparameters& hyper() const { return model.model->hyper; }
  const DeviceLayer& layer(int i) const { return model.gpu_layer(i); }
  int hidden() const { return int(spec().hidden); }
  /// The hidden state of the token in row `row` of the step.
  float* hidden_row(int row) const {
    return buffers.vectors.hidden + std::int64_t(row) * spec().hidden;
  }
};

/// Queues the rotary embedding's angles for `tokens` tokens from *token.position on.
void queue_rope_angles(const ForwardContext& f, int tokens);

/// Inputs for storing a layer's new tokens: vectors.projected holds contiguous rows [q | k | v].
NewTokenInputs new_token_inputs(const ForwardContext& f, int layer);

}  // namespace rigcast::engine::cuda
