#pragma once
// What the CPU's last-level cache keeps of a step's reads from one token to the next.

#include <vector>

#include "perfmodel/cost/operation.hpp"

namespace rigcast {

/// Lowers the cost of a token's operations by what the CPU's last-level cache holds of their reads.
/// `counts`: how often each operation occurs; empty: once.
void apply_last_level_cache(const StepContext& context, std::vector<StepOp>& ops,
                            const std::vector<double>& counts);

}  // namespace rigcast
