#pragma once
// Pinned host memory: the CPU computes with it, and GPUs copy it at the link's full rate.

#include <string>

#include "core/base/stop_flag.hpp"
#include "engine/kv/kv_cache.hpp"
#include "engine/memory/ram.hpp"

namespace rigcast::engine::cuda {

/// An allocator of pinned pages. The calling thread's current GPU does not change. `item` follows
/// "the" in errors: "weights". The allocator throws ShortOfMemory if the system has too little
/// memory, Interrupted once `stop` is set, CudaFailure.
Allocator pinned_memory(const std::string& item, const StopFlag& stop = {});

/// An allocator that keeps freed memory for the next request of the same size, because pinning
/// pages takes longer than copying them. Kept memory is charged to `ram` as `item` until it is
/// released because `ram` is short. It is freed with the last copy of the allocator and the last
/// memory from it.
Allocator reused(const Ram& ram, const std::string& item, Allocator make);

}  // namespace rigcast::engine::cuda
