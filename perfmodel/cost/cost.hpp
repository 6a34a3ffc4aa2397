#pragma once
// What an operation's traffic costs on a device, by what the runtime's kernels reach of it.

#include "core/model/traffic.hpp"
#include "core/scenario/scenario.hpp"
#include "perfmodel/cost/roofline.hpp"
#include "perfmodel/step_context.hpp"

namespace rigcast {

/// The cost of `traffic` on GPU number `gpu`, for a batch of `tokens` tokens, launched as `kernels`
/// kernels.
OpCost gpu_cost(const StepContext& context, std::size_t gpu, const OpTraffic& traffic,
                TokenCount tokens, double kernels);

/// The cost of `traffic` on the CPU with the scenario's threads, for a batch of `tokens` tokens.
OpCost cpu_cost(const StepContext& context, const OpTraffic& traffic, TokenCount tokens);

/// The rate at which the CPU's attention reads a cache in RAM.
BytesPerSecond cpu_cache_rate(const StepContext& context);

}  // namespace rigcast
