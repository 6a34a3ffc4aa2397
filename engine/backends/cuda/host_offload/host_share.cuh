#pragma once
// How attention over keys and values in the host's memory is best shared.

#include "core/model/kv_cache.hpp"
#include "core/model/model_spec.hpp"
#include "engine/backends/cuda/kv/cold_sharing.hpp"
#include "engine/cuda/memory/vram.cuh"

namespace rigcast::engine::cuda {

/// Where the host's threads attend to some of a cache and the link carries the rest to the GPU:
/// both are timed at once, for they read the same memory, in pages as cold blocks have them. Takes
/// some 100 ms. Throws ShortOfMemory, CudaFailure, MachineError.
SharedReading measured_sharing(Vram& vram, const ModelSpec& spec, KvTypes types, int threads);

}  // namespace rigcast::engine::cuda
