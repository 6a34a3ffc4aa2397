#pragma once
// The KV cache of the project's own engine: blocks are allocated as the context grows, and evicted
// from VRAM to host memory under the KV policies that do so.

#include "perfmodel/runtimes/runtime_model.hpp"

namespace rigcast {

/// Bytes of one block of a layer's cache. All layers keep all tokens, those with a window as well.
double kv_block_bytes(const StepContext& context, int layer, KvTypes types);
/// The number of blocks that hold `tokens` tokens.
TokenCount kv_blocks(const StepContext& context, TokenCount tokens);

/// RuntimeModel::add_cache, with the staged KV of layers whose weights are copied for a prompt's
/// batches.
void add_block_cache(const MemoryContext& context, const Placement& placement, const Batch& batch,
                     MemoryPlan& plan);

/// Evicted tokens that are fetched for one sequence's step, where `hot` tokens may stay: a step
/// that allocates blocks starts to evict, and the next such step finishes the eviction.
TokenCount cold_block_tokens(const StepContext& context, TokenCount hot, const Sequence& sequence);

/// RuntimeModel::cold_copy_start. Blocks are copied in pieces; small layers share a piece.
Seconds cold_block_copy_start(const StepContext& context, int layer, double bytes);

/// RuntimeModel::split_cold_blocks, in whole blocks: CPU and link end together, at the rates that
/// each has alone. Blocks that the link copies while the GPU computes the rest of the layer are
/// copied in any case.
ColdSplit split_blocks(const StepContext& context, const Placement& placement, int layer,
                       DeviceIndex device, double flops, double bytes);

}  // namespace rigcast
