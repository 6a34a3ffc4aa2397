#pragma once
// Random keys and values in place of computed ones, to decode at a depth without a prefill.

#include "engine/backends/cuda/forward/forward_context.cuh"
#include "engine/backends/cuda/kv/device_cache.cuh"

namespace rigcast::engine::cuda {

/// Queues random keys and values for `tokens` tokens (up to vectors.tokens) at *token.position =
/// `cached`, in every layer that the cache keeps. The position does not change.
void queue_random_tokens(const ForwardContext& f, const DeviceCache& cache, TokenCount cached,
                         int tokens);

}  // namespace rigcast::engine::cuda
