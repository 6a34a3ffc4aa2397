#pragma once
// What an operation's traffic costs on a device, by what the runtime's kernels reach of it.

#include "core/model/traffic.hpp"
#include "core/scenario/scenario.hpp"
#include "perfmodel/cost/roofline.hpp"
#include "perfmodel/step_context.hpp"

namespace rigcast {

/// On a GPU, for a batch of `tokens`, launched as `kernels` kernels.
OpCost gpu_cost(const StepContext& context, std::size_t gpu, const OpTraffic& traffic,
                TokenCount tokens, double kernels);

/// On the CPU with the scenario's threads, for a batch of `tokens`.
OpCost cpu_cost(const StepContext& context, const OpTraffic& traffic, TokenCount tokens);

/// What the CPU's attention can read of a cache in RAM.
BytesPerSecond cpu_cache_rate(const StepContext& context);

}  // namespace rigcast
