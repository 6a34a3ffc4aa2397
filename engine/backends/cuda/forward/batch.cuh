#pragma once
// A batch of a prompt's tokens through all layers.

#include <cstdint>
#include <span>

#include "engine/backends/cuda/forward/stages.cuh"
#include "engine/backends/cuda/forward/state.cuh"

namespace rigcast::engine::cuda {

/// Queues vectors.ids [0, tokens), which are `ids`, at *token.position = `cached`; it grows by as
/// many. Their hidden states, before the last norm, stay in vectors.hidden. Nothing is waited for,
/// unless the host has a part.
void queue_batch(State& s, TokenCount cached, std::span<const std::int32_t> ids, Stages* stages);

}  // namespace rigcast::engine::cuda
