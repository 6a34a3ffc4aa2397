#pragma once
// Speed at the two ends of contexts of growing length, each with its own placement.

#include <memory>
#include <vector>

#include "core/scenario/scenario.hpp"
#include "report/report.hpp"

namespace rigcast::sim {

/// Context limits from 1,024 tokens, or the scenario's own if it is less, to the model's, each
/// twice the one before. With automatic layers each has those that fit beside its cache; the first
/// speed is of a nearly empty context, the last of a full one.
std::vector<ContextSpeed> by_context(const Scenario& scenario);

}  // namespace rigcast::sim
