#pragma once
// Bytes that a step of several sequences moves on the GPU, for reports.

#include <span>

#include "engine/backends/cuda/kv/device_cache.cuh"
#include "engine/backends/cuda/weights/placed_model.cuh"
#include "engine/run/batch_executor.hpp"

namespace rigcast::engine::cuda {

/// Weights count once. Which experts are chosen is known only on the GPU: as many are counted as
/// the step's tokens can choose.
MovedBytes moved_bytes(const PlacedModel& model, const DeviceCache& cache,
                       std::span<const SequenceStep> sequences);

}  // namespace rigcast::engine::cuda
