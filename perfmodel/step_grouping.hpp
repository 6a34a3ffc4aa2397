#pragma once
// Merges the operations of alike layers, so that fewer activities are simulated.

#include <vector>

#include "perfmodel/cost/operation.hpp"

namespace rigcast {

/// The largest number of neighbouring layers of one class that become one.
struct StepGrouping {
  int layers = 1;
};

/// Merges runs of layers of one class, operation by operation.
std::vector<StepOp> group_layers(const std::vector<StepOp>& ops, StepGrouping grouping);

}  // namespace rigcast
