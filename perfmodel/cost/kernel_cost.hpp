#pragma once
// What the costs of GPU and CPU kernels have in common.

#include "core/model/traffic.hpp"
#include "perfmodel/context/step_context.hpp"
#include "perfmodel/cost/roofline.hpp"

namespace rigcast {

/// Batches of up to this many tokens run as matrix-vector products, whose arithmetic is hidden
// behind their reads.
inline constexpr TokenCount kMatVecTokens = 8;

/// Bytes that attention moves of the cache.
double cache_bytes(const StepContext& context, const OpTraffic& traffic);

/// As fast as the rig's own runs were, for a batch of `tokens`.
OpCost corrected(const StepContext& context, OpCost cost, TokenCount tokens);

}  // namespace rigcast
