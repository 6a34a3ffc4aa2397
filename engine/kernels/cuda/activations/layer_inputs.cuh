#pragma once
// Inputs of layers beside the residual stream: half of each is the token's own, half is made of its
// embedding.

#include <cstdint>

#include "engine/cuda/cuda_stream.cuh"

namespace rigcast::engine::cuda {

/// Rows of all layers' inputs, one after the other: [tokens][layers][width].
struct LayerInputs {
  float* made = nullptr;       // products of the embedding, which become the inputs
  const float* own = nullptr;  // rows of the inputs' embedding
  int tokens = 0, layers = 0, width = 0;
};

/// made = sqrt(1 / 2) (norm(scale * made) + sqrt(width) * own), where the norm is of each layer's
/// part: x / sqrt(mean square of x + eps) * weight. weight: [width]. Queues its work, kEarly.
/// Throws CudaFailure.
void finish_layer_inputs(const Stream& stream, const LayerInputs& inputs, const float* weight,
                         float eps, float scale);

}  // namespace rigcast::engine::cuda
