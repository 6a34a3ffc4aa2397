#pragma once
// What an operation's traffic costs on a GPU, by what the runtime's kernels reach of it.

#include "core/model/traffic.hpp"
#include "perfmodel/context/step_context.hpp"
#include "perfmodel/cost/roofline.hpp"

namespace rigcast {

/// For a batch of `tokens`, launched as `kernels` kernels. `in_graph`: in a recorded graph, though
/// the tokens are several.
OpCost gpu_cost(const StepContext& context, std::size_t gpu, const OpTraffic& traffic,
                TokenCount tokens, double kernels, bool in_graph = false);

}  // namespace rigcast
