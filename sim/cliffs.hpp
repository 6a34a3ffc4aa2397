#pragma once
// Finds where speed falls by more than its trend, and why.

#include <vector>

#include "report/report.hpp"
#include "sim/decode.hpp"

namespace rigcast::sim {

/// Falls along the tokens in the cache, from `first` to `last`, the start of each located to within
/// one block: steps, and declines (with until_tokens). A step may be followed by a decline.
std::vector<Cliff> position_cliffs(const StepContext& context, DecodeModel& model, TokenCount first,
                                   TokenCount last);

/// Cliffs along the context limit: the longest context that fits with this placement, and what
/// follows it.
std::vector<Cliff> context_cliffs(const Scenario& scenario, const Placement& placement,
                                  TokenCount longest);

}  // namespace rigcast::sim
