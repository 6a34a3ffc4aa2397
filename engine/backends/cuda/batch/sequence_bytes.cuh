#pragma once
// Bytes that a step of several sequences moves on the GPU, for reports.

#include <span>

#include "engine/backends/cuda/forward/state.cuh"
#include "engine/run/batch_executor.hpp"

namespace rigcast::engine::cuda {

/// Weights count once, and those of streamed layers over the link as well. Which experts are chosen
/// is known only on the GPU: as many are counted as the step's tokens can choose. `kept`: tokens
/// for which the last layer's FFN is computed. What the host moves, and what goes to it and back,
/// it counts itself.
MovedBytes moved_bytes(const State& state, std::span<const SequenceStep> sequences,
                       std::size_t kept);

}  // namespace rigcast::engine::cuda
