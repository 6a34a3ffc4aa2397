#pragma once
// The engine's use of a GPU's memory, itemized as in reports.

#include "core/scenario/device_memory.hpp"
#include "engine/cuda/memory/vram.cuh"

namespace rigcast::engine::cuda {

/// Memory of the current GPU, now. Memory of other processes counts as overhead, unless a limit
/// defines how much there is. Throws CudaFailure.
DeviceMemory gpu_memory(const Vram& vram);

}  // namespace rigcast::engine::cuda
