#pragma once
// Memory of the host that the CPU computes with and GPUs copy from and to at the link's rate.

#include <string>

#include "core/base/stop_flag.hpp"
#include "engine/kv/kv_cache.hpp"
#include "engine/memory/ram.hpp"

namespace rigcast::engine::cuda {

/// Makes pinned pages; the GPU that is current in the calling thread stays it. `item` goes on with
/// "the": "weights". What it makes throws ShortOfMemory where the system has less than is asked
/// for, Interrupted once `stop` is set, CudaFailure.
MakeMemory pinned_memory(const std::string& item, const StopFlag& stop = {});

/// Keeps what was given back for the next that asks for as many bytes: pages take longer to pin
/// than to copy. Counted on `ram` as `item` until it gives way, where that is short of something
/// else. Goes with the last copy of it and the last memory that it made.
MakeMemory reused(const Ram& ram, const std::string& item, MakeMemory make);

}  // namespace rigcast::engine::cuda
