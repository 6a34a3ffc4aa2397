#pragma once
// How attention over keys and values in the host's memory is best shared.

#include "core/kv_cache.hpp"
#include "core/model_spec.hpp"
#include "engine/cuda/vram.cuh"

namespace rigcast::engine::cuda {

/// The host's share where its threads attend to some of the cache and the link carries the rest to
/// the GPU, so that both end together: both are timed at once, for they read the same memory. Takes
/// some 50 ms. Throws ShortOfMemory, CudaFailure, MachineError.
double measured_host_share(Vram& vram, const ModelSpec& spec, KvTypes types, int threads);

}  // namespace rigcast::engine::cuda
