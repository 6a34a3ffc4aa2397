#pragma once
// Alike layers of a step as one operation each: fewer activities to simulate.

#include <vector>

#include "perfmodel/cost/operation.hpp"

namespace rigcast {

/// Neighbouring layers of one class merged into one, up to this many.
struct StepGrouping {
  int layers = 1;
};

/// Merges runs of layers of one class, operation by operation.
std::vector<StepOp> group_layers(const std::vector<StepOp>& ops, StepGrouping grouping);

}  // namespace rigcast
