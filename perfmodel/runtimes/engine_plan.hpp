#pragma once
// What the project's own engine takes of every device beside weights: forecasts of its memory. Its
// runtime profile is the one whose cache is in blocks.

#include "core/scenario/device_memory.hpp"
#include "core/scenario/placement.hpp"

namespace rigcast {

inline bool is_own_engine(const RuntimeProfile& runtime) {
  return runtime.memory.kv == KvAllocation::kBlocks;
}

/// Vectors and workspaces of a device that computes; 0 of a host that computes nothing.
Bytes engine_buffers(const Scenario& scenario, const Placement& placement, DeviceIndex device);

/// Of the host's engine_buffers, what is never written to, and takes no memory: those for batches
/// that a GPU computes in its place.
Bytes engine_untouched(const Scenario& scenario, const Placement& placement);

/// Kernels of cuBLAS are loaded: with the weights where a ubatch may have more tokens than a GPU
/// takes with weights as they lie, else with the first batch whose weights are no blocks.
bool engine_loads_cublas(const Scenario& scenario, const Placement& placement);

/// Room on the GPUs for weights that are copied from the host, and in a prompt's batches for the
/// caches of its layers.
void add_engine_streams(const Scenario& scenario, const Placement& placement, MemoryPlan& plan);

/// The cache with `cached` tokens in the context; where blocks leave a GPU, also how many tokens
/// stay there. Everything else is in the plan.
void add_engine_kv(const Scenario& scenario, const Placement& placement, TokenCount cached,
                   MemoryPlan& plan);

/// Cold tokens that come back for a step of tokens [from, to), where `hot` may stay: blocks begin
/// to leave when a step takes new ones, and have left when the next one does.
TokenCount engine_cold_tokens(const Scenario& scenario, TokenCount hot, TokenCount from,
                              TokenCount to);

/// How often the embedding is in the host's memory. One that is the head's matrix, too, may be
/// there not at all, for a GPU takes rows from its own, or twice: as the host multiplies with it,
/// and as a GPU takes rows from it.
int engine_embeddings(const Scenario& scenario, const Placement& placement);

}  // namespace rigcast
