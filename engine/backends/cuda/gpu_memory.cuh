#pragma once
// What the engine takes of a GPU's memory, itemised as reports are.

#include "core/scenario/device_memory.hpp"
#include "engine/cuda/memory/vram.cuh"

namespace rigcast::engine::cuda {

/// Of the current GPU, now. What others take of it counts as overhead, unless a limit says how much
/// is there. Throws CudaFailure.
DeviceMemory gpu_memory(const Vram& vram);

}  // namespace rigcast::engine::cuda
