#pragma once
// Where copies of a server's KV cache and its steps slow each other.

#include <optional>

#include "core/scenario/placement.hpp"
#include "core/scenario/scenario.hpp"
#include "sim/machine/copy_links.hpp"
#include "sim/serving/cache/ram_tier.hpp"

namespace rigcast {

/// True if what may be under way at once wants more of a link, or of RAM, than it carries: only
/// then does anything slow anything. `host_weights`: steps read weights in RAM, or stream them.
bool is_contended(const sim::CopyLinks& links, bool host_weights);

/// The links that copies of the tier share with steps; nullopt: nothing slows them, or they are
/// never under way at once, and times have a closed form. Not told apart, and taken to be free of
/// one another: copies of several GPUs that do not share layers, and of caches in RAM or in unified
/// memory.
std::optional<sim::CopyLinks> contended_links(const Scenario& scenario, const Placement& placement,
                                              const RamTier& tier);

}  // namespace rigcast
