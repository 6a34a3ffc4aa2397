#pragma once
// The mask of attention scores, which one thread of the host writes for every batch.

#include "core/model/traffic.hpp"
#include "perfmodel/context/step_context.hpp"

namespace rigcast {

/// Pairs of a token and a cell of the cache in the masks of a batch: one of all cells where layers
/// see all tokens, one of a window's where there is one. 0 for a profile without `mask_cycles`.
double mask_pairs(const StepContext& context, const Batch& batch);

/// Time in which a core writes so many pairs; none with builds that no longer look at each.
Seconds mask_time(const StepContext& context, double pairs);

}  // namespace rigcast
