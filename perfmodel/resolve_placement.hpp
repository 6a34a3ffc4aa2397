#pragma once
// The placement of a scenario whose number of GPU layers may be open, and what would let the GPU
// hold all of them.

#include "core/scenario/placement.hpp"

namespace rigcast {

/// The placement of the scenario: as asked for, or with as many layers on the GPUs as fit.
Placement resolve_placement(const Scenario& scenario);

/// The command that lets the GPU hold all of the model, where Metal's default limit is too low for
/// it and the machine's memory is not; empty: the limit is not what is missing.
/// Source: `iogpu.wired_limit_mb`, in MiB, which recommendedMaxWorkingSetSize then returns (on an
/// M3, AlexsJones/llmfit pull request 754; on an M5 Max, antirez/ds4 pull request 893).
std::string wired_limit_note(const Scenario& scenario);

}  // namespace rigcast
