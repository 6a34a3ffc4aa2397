#pragma once
// How much memory is missing when nothing fits.

#include <optional>

#include "planner/plan.hpp"

namespace rigcast::planner {

/// The scenario with the space's smallest weights and cache that lose no more than the constraints
/// allow; without such, the smallest of all.
Scenario smallest_of(const Scenario& scenario, const SearchSpace& search_space,
                     const Constraints& constraints, const QualityTable& quality);

/// The additional RAM with which the scenario fits in some placement, rounded up to whole GiB;
/// nullopt: more than 4 TiB.
std::optional<Bytes> missing_ram(const Scenario& scenario);

}  // namespace rigcast::planner
