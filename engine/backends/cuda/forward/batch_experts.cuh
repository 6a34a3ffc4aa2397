#pragma once
// The mixture of experts of a batch: a grouped product over all tokens of each expert, or token by
// token.

#include "engine/backends/cuda/forward/forward_context.cuh"
#include "engine/backends/cuda/host_offload/host_offload.cuh"
#include "engine/backends/cuda/weight_streaming/expert_stream.cuh"

namespace rigcast::engine::cuda {

/// vectors.hidden += the output of a layer's mixture of experts, for its first `tokens` rows.
/// `copied`: copies the chosen experts' weights from the host, for a layer with
/// uses_grouped_gemm(); nullptr: they are on the GPU.
void queue_batch_experts(const ForwardContext& f, ExpertStream* copied, int layer, int tokens);

/// rows += the output of the layer's mixture, of which the host computes the experts that it
/// chooses, and the GPU the shared one. The rows are the first of vectors.hidden.
void compute_experts_on_host(const ForwardContext& f, HostOffload& host, int layer,
                             const BatchRows& rows);

}  // namespace rigcast::engine::cuda
