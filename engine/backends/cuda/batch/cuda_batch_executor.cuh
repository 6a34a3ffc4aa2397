#pragma once
// The executor of many sequences on a GPU, and on the host, which may have any part of the model.

#include <memory>
#include <optional>

#include "engine/backends/cuda/forward/state.cuh"
#include "engine/kv/kv_eviction.hpp"
#include "engine/run/batch_executor.hpp"
#include "engine/run/batch_options.hpp"

namespace rigcast::engine::cuda {

struct BatchPlacement {
  /// Allocates pinned memory for cold blocks, and for those to which the pool's are moved.
  Allocator host_memory;
  /// Which blocks of the pool are cold, by hot_tokens and threshold; nullopt: none.
  std::optional<KvEviction> cold{};
  bool graphs = true;  // steps with neither chunks nor cold blocks are launched as captured graphs
};

/// Makes the executor. The state's cache keeps no blocks of its own, and the host does not decode
/// alone what the GPU has prefilled. Throws MachineError, ShortOfMemory, std::bad_alloc.
std::unique_ptr<BatchExecutor> batch_executor_of(std::unique_ptr<State> state,
                                                 const BatchOptions& batch,
                                                 const BatchPlacement& placement);

}  // namespace rigcast::engine::cuda
