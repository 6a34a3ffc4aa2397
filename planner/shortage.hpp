#pragma once
// What is missing where nothing fits.

#include <optional>

#include "planner/plan.hpp"

namespace rigcast::planner {

/// The scenario with the space's smallest weights and cache.
Scenario smallest_of(const Scenario& scenario, const Space& space);

/// How much more RAM the scenario needs to fit in some placement, to a tenth of a GiB; nullopt:
/// more than 4 TiB.
std::optional<Bytes> missing_ram(const Scenario& scenario, Bytes headroom);

}  // namespace rigcast::planner
