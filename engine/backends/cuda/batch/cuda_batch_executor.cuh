#pragma once
// The executor of many sequences on a GPU, whose experts may be in the host's memory.

#include <memory>

#include "engine/backends/cuda/forward/state.cuh"
#include "engine/run/batch_executor.hpp"
#include "engine/run/batch_options.hpp"

namespace rigcast::engine::cuda {

/// Makes the executor. `graphs`: steps without a prompt's chunk are launched as one captured graph.
/// `host_memory` allocates blocks of the host's batch. Throws MachineError for a placement that it
/// does not compute, ShortOfMemory, std::bad_alloc.
std::unique_ptr<BatchExecutor> batch_executor_of(std::unique_ptr<State> state,
                                                 const BatchOptions& batch,
                                                 const Allocator& host_memory, bool graphs);

}  // namespace rigcast::engine::cuda
