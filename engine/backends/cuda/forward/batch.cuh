#pragma once
// The forward pass of a batch of prompt tokens through all layers.

#include <cstdint>
#include <span>

#include "engine/backends/cuda/forward/stages.cuh"
#include "engine/backends/cuda/forward/state.cuh"

namespace rigcast::engine::cuda {

/// Queues the tokens of vectors.ids, which equal `ids`, at *token.position = `cached`; the position
/// grows by their number. The hidden states of the last `wanted` of them, before the last norm, are
/// the first rows of vectors.hidden: what only the others need is left out. Nothing waits, unless
/// the host computes a part.
void queue_batch(State& s, TokenCount cached, std::span<const std::int32_t> ids, int wanted,
                 StageListener* stages);

/// Queues the FFN of the first rows of vectors.hidden; its output is added to them.
void queue_batch_ffn(const ForwardContext& f, const DeviceLayer& layer, int rows);

/// batch.x = the attention output of a layer whose cache the host has, for vectors.projected. Waits
/// for queued work.
void attend_on_host(const ForwardContext& f, HostOffload& host, int layer, const RowOwners& of,
                    int tokens);

}  // namespace rigcast::engine::cuda
