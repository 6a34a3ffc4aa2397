#pragma once
// Layers that are alike: the first of them is computed for all, and their operations may be merged,
// so that fewer activities are simulated.

#include <vector>

#include "perfmodel/cost/operation.hpp"
#include "report/activity.hpp"

namespace rigcast {

/// For every layer, the first layer with the same operations: equal tensors, kind and placement. In
/// prompts, the last layer may compute fewer tokens than others like it.
std::vector<int> alike_layers(const StepContext& context, const Placement& placement,
                              Phase phase);

/// How the layers of a step become its operations.
struct StepGrouping {
  int layers = 1;  // the largest number of neighbouring layers of one class that become one
  /// What alike_layers() gives for the step's context, placement and phase, for callers that ask
  /// for many steps; nullptr: it is found out anew.
  const std::vector<int>* alike = nullptr;
};

/// Merges runs of layers of one class, operation by operation.
std::vector<StepOp> group_layers(const StepContext& context, const std::vector<StepOp>& ops,
                                 StepGrouping grouping);

}  // namespace rigcast
