#pragma once

#include "perfmodel/step_grouping.hpp"

namespace rigcast::sim {

/// The fidelity of a simulation: a sweep compares thousands of scenarios, a report is one.
enum class Fidelity { kSweep, kFinal, kExact };

/// The number of neighbouring layers that are merged: in a sweep the largest that keeps overlap
/// within 1 % (bench/sampling).
inline StepGrouping grouping_of(Fidelity fidelity) {
  return {fidelity == Fidelity::kSweep ? 4 : 1};
}

}  // namespace rigcast::sim
