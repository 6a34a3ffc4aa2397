#pragma once
// The placement of a scenario whose number of GPU layers may be open.

#include "core/scenario/placement.hpp"

namespace rigcast {

/// The placement of the scenario: as asked for, or with as many layers on the GPUs as fit.
Placement resolve_placement(const Scenario& scenario);

}  // namespace rigcast
