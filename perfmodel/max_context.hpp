#pragma once
// The longest context limit for which there is memory.

#include "core/scenario/placement.hpp"

namespace rigcast {

/// The longest context limit whose memory fits with this placement, at most `most`; 0 if none. It
/// leaves the headroom of every GPU, if the scenario's own context does.
TokenCount max_context(const Scenario& scenario, const Placement& placement, TokenCount most);

}  // namespace rigcast
