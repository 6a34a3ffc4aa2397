#pragma once
// Copies of keys and values from host memory to a GPU.

#include "perfmodel/cost/operation.hpp"

namespace rigcast {

/// The copy of `bytes` of the cache to the GPU that attends to them.
Fetch kv_fetch(const StepContext& context, double bytes);
/// The same of a cache that is in RAM from the start. A runtime may copy it from pageable memory,
/// and wait for it.
Fetch ram_cache_fetch(const StepContext& context, double bytes);

}  // namespace rigcast
