#pragma once
// The executor of many sequences on a GPU, and on the host, which may have any part of the model.

#include <memory>

#include "engine/backends/cuda/forward/state.cuh"
#include "engine/run/batch_executor.hpp"
#include "engine/run/batch_options.hpp"

namespace rigcast::engine::cuda {

/// Makes the executor. `graphs`: steps without a prompt's chunk are launched as one captured graph.
/// `host_memory` allocates blocks to which the GPU's are moved. Caches do not leave the GPU in
/// parts, and the host does not decode alone what the GPU has prefilled. Throws MachineError,
/// ShortOfMemory, std::bad_alloc.
std::unique_ptr<BatchExecutor> batch_executor_of(std::unique_ptr<State> state,
                                                 const BatchOptions& batch,
                                                 const Allocator& host_memory, bool graphs);

}  // namespace rigcast::engine::cuda
