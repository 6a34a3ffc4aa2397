#pragma once
// What a placement takes of every device's memory, itemised, by the allocation rules of the
// runtime profile.

#include "core/scenario/device_memory.hpp"
#include "core/scenario/placement.hpp"
#include "perfmodel/step_context.hpp"

namespace rigcast {

/// Memory when `cached` tokens are in the context; runtimes that allocate for the context limit
/// take it all from the start.
MemoryPlan plan_memory(const MemoryContext& context, const Placement& placement, TokenCount cached);

/// The placement of the scenario: as asked for, or with as many layers on the GPUs as fit.
Placement resolve_placement(const Scenario& scenario);

/// The longest context limit whose memory fits with this placement, at most `most`; 0 if none.
TokenCount longest_context(const Scenario& scenario, const Placement& placement, TokenCount most);

}  // namespace rigcast
