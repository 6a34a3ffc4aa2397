#pragma once
// Copies of keys and values from host memory to a GPU.

#include "perfmodel/cost/operation.hpp"

namespace rigcast {

/// The copy of `bytes` of the cache to the GPU that attends to them.
Fetch kv_fetch(const StepContext& context, double bytes);

}  // namespace rigcast
