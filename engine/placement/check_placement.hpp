#pragma once
// Placements that one GPU and its host do not execute.

#include <optional>

#include "core/base/error.hpp"
#include "core/scenario/placement.hpp"

namespace rigcast::engine {

/// Why the placement is not executed; nullopt if it is. `cache_leaves`: old blocks of the GPU's
/// cache go to the host.
std::optional<Error> check_placement(const Placement& placement, bool cache_leaves);

}  // namespace rigcast::engine
