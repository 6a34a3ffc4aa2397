#pragma once
// What an operation's traffic costs on the CPU with the scenario's threads.

#include "core/model/traffic.hpp"
#include "perfmodel/context/step_context.hpp"
#include "perfmodel/cost/roofline.hpp"

namespace rigcast {

/// For a batch of `tokens`.
OpCost cpu_cost(const StepContext& context, const OpTraffic& traffic, TokenCount tokens);

}  // namespace rigcast
