#pragma once
// How much memory is missing when nothing fits.

#include <optional>

#include "planner/plan.hpp"

namespace rigcast::planner {

/// The scenario with the space's smallest weights and cache.
Scenario smallest_of(const Scenario& scenario, const SearchSpace& search_space);

/// The additional RAM with which the scenario fits in some placement, to a tenth of a GiB; nullopt:
/// more than 4 TiB.
std::optional<Bytes> missing_ram(const Scenario& scenario);

}  // namespace rigcast::planner
