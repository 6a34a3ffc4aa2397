#pragma once
// The mixture of experts of a batch: in groups, all tokens of an expert at once, or token by token.

#include "engine/backends/cuda/forward/forward_context.cuh"
#include "engine/backends/cuda/weight_streaming/expert_stream.cuh"

namespace rigcast::engine::cuda {

/// vectors.hidden += the mixture of a layer's experts for `tokens` rows of it. `copied`: brings the
/// experts' weights from the host as they are chosen, for a layer that groups_experts(); nullptr:
/// they are on the GPU.
void queue_batch_experts(const ForwardContext& f, ExpertStream* copied, int layer, int tokens);

}  // namespace rigcast::engine::cuda
