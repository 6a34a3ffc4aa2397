#pragma once
// The memory that a placement needs on every device, itemised, by the allocation rules of the
// runtime profile.

#include "core/scenario/device_memory.hpp"
#include "core/scenario/placement.hpp"
#include "perfmodel/context/step_context.hpp"

namespace rigcast {

/// Memory in use when a step of `batch` has ended, whose sequences have a cache each. Runtimes that
/// allocate for the context limit use all of it from the start.
MemoryPlan plan_memory(const MemoryContext& context, const Placement& placement,
                       const Batch& batch);
/// Memory in use when a single sequence, or that of every slot, has `cached` tokens.
MemoryPlan plan_memory(const MemoryContext& context, const Placement& placement, TokenCount cached);

/// True if weights that RAM does not hold are read from the mapped file again. Of a scenario that
/// states its memory, whatever maps its file runs so; else only a runtime that is known to.
bool weights_may_leave(const StepContext& context);

/// Weights of the host that are pages of mapped files, with those that RAM cannot hold. Metal
/// computes with them in place. A projector is read into a buffer, and weights may be repacked into
/// one.
Bytes mapped_weights(const StepContext& context, const MemoryPlan& plan);

/// Bytes of the files of model, draft model and projector that RAM holds when requests begin: pages
/// in the cache, and those that are the host's weights, or with Metal also the GPU's.
Bytes held_of_file(const StepContext& context, const MemoryPlan& plan);

}  // namespace rigcast
