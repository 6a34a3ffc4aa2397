#pragma once

#include "perfmodel/step_grouping.hpp"

namespace rigcast::sim {

/// How closely to look. A sweep compares thousands of scenarios, a report is one.
enum class Detail { kSweep, kFinal, kExact };

/// Neighbouring layers that are merged: in a sweep the most that keeps overlap within 1 %
/// (bench/sampling).
inline StepGrouping grouping_of(Detail detail) { return {detail == Detail::kSweep ? 4 : 1}; }

}  // namespace rigcast::sim
