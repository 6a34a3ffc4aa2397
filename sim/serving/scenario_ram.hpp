#pragma once
// The tiers behind the cache of a scenario's server.

#include <string>

#include "core/base/error.hpp"
#include "core/scenario/placement.hpp"
#include "core/scenario/scenario.hpp"
#include "sim/serving/cache/ram_tier.hpp"

namespace rigcast {

/// `free`: RAM that all else leaves. States of slots, which are allocated as they come, have no
/// more than that, as rigcast's commands limit them. Refers to the scenario, which must outlive it.
/// Errors: blocks, which are allocated when the server starts, for which there is no room.
Result<RamTier> ram_tier_of(const Scenario& scenario, const Placement& placement, Bytes free);

/// That states of slots have less RAM than their limit; empty: they have as much. `room`: what they
/// have.
std::string note_on_ram_limit(const Scenario& scenario, Bytes room);

}  // namespace rigcast
