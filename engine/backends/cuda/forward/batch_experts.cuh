#pragma once
// The mixture of experts of a batch: a grouped product over all tokens of each expert, or token by
// token.

#include "engine/backends/cuda/forward/forward_context.cuh"
#include "engine/backends/cuda/weight_streaming/expert_stream.cuh"

namespace rigcast::engine::cuda {

/// vectors.hidden += the output of a layer's mixture of experts, for its first `tokens` rows.
/// `copied`: copies the chosen experts' weights from the host, for a layer with
/// uses_grouped_gemm(); nullptr: they are on the GPU.
void queue_batch_experts(const ForwardContext& f, ExpertStream* copied, int layer, int tokens);

}  // namespace rigcast::engine::cuda
