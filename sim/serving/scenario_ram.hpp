#pragma once
// The second tier of the cache of a scenario's server.

#include "core/base/error.hpp"
#include "core/scenario/placement.hpp"
#include "core/scenario/scenario.hpp"
#include "sim/serving/cache/ram_tier.hpp"

namespace rigcast {

/// `free`: RAM that all else leaves; a default is no more than that, as rigcast's commands limit
/// it. Refers to the scenario, which must outlive it. Errors: more than that was asked for.
Result<RamTier> ram_tier_of(const Scenario& scenario, const Placement& placement, Bytes free);

}  // namespace rigcast
