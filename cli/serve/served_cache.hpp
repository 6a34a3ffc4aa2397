#pragma once
// How large the KV cache of a server is.

#include "core/base/error.hpp"
#include "core/base/units.hpp"
#include "core/scenario/scenario.hpp"
#include "engine/run/batch_options.hpp"
#include "validation/runs/execute_options.hpp"

namespace rigcast::cli {

struct ServedCache {
  int sequences = 16;        // at once
  TokenCount kv_tokens = 0;  // of all of them; 0: it follows from the memory
  bool has_disk = false;     // behind it, to which blocks of all layers go
};

/// In a GPU's memory, and with a limit of RAM, the executor knows how much there is room for. Else,
/// on the CPU or with blocks of a GPU's cache in RAM, it is the context of every sequence, as far
/// as half of the memory that weights leave free goes. Error: the cache is smaller than the context
/// (kDoesNotFit).
Result<engine::BatchOptions> batch_options(const Scenario& scenario,
                                           const validation::ExecuteOptions& options,
                                           const ServedCache& cache);

}  // namespace rigcast::cli
