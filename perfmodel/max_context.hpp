#pragma once
// The longest context limit for which there is memory.

#include "core/scenario/placement.hpp"

namespace rigcast {

/// The longest context limit whose memory fits with this placement, at most `most`; 0 if none.
TokenCount max_context(const Scenario& scenario, const Placement& placement, TokenCount most);

}  // namespace rigcast
