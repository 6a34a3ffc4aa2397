#pragma once
// The cache of the project's own engine: blocks that are taken as the context grows, and that leave
// VRAM for host memory where the KV policy says so.

#include "perfmodel/runtimes/runtime_model.hpp"

namespace rigcast {

/// Bytes of one block of a layer's cache.
double kv_block_bytes(const StepContext& context, int layer, KvTypes types);
/// Blocks that hold so many tokens.
TokenCount kv_blocks(const StepContext& context, TokenCount tokens);

/// RuntimeModel::add_cache.
void add_block_cache(const MemoryContext& context, const Placement& placement, TokenCount cached,
                     MemoryPlan& plan);

/// Cold tokens that come back for one sequence's step, where `hot` may stay: blocks begin to leave
/// when a step takes new ones, and have left when the next one does.
TokenCount cold_block_tokens(const StepContext& context, TokenCount hot, const Sequence& sequence);

/// RuntimeModel::cold_copy_start. Blocks come in pieces, those of small layers for several of them.
Seconds cold_block_copy_start(const StepContext& context, int layer, double bytes);

/// RuntimeModel::split_cold_blocks. Both sides end together, by the rates that they have alone.
/// What the link carries while the GPU is at the rest of the layer is the link's. Whole blocks.
ColdSplit split_blocks(const StepContext& context, const Placement& placement, int layer,
                       DeviceIndex device, double flops, double bytes);

}  // namespace rigcast
