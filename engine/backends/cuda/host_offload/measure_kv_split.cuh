#pragma once
// A measurement of the best split of attention over keys and values in the host's memory.

#include "core/model/kv_bytes.hpp"
#include "core/model/model_spec.hpp"
#include "engine/backends/cuda/kv/cpu_gpu_kv_split.hpp"
#include "engine/cuda/memory/vram.cuh"

namespace rigcast::engine::cuda {

/// Measures the host's threads attending to a part of a cache while the link carries the rest to
/// the GPU. Both are timed at once, because they read the same memory, in pages like those of cold
/// blocks. Takes about 100 ms. Throws ShortOfMemory, CudaFailure, MachineError.
ConcurrentBandwidth measure_kv_split(Vram& vram, const ModelSpec& spec, KvTypes types, int threads);

}  // namespace rigcast::engine::cuda
