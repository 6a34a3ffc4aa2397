#pragma once
// What a user's own runs say of the speed of a machine.

#include <span>

#include "core/hardware/rig.hpp"

namespace rigcast {

/// One run, or what is expected before any. Logarithms throughout.
struct OwnRun {
  double ratio = 0;  // measured over forecast
  double prior = 0;  // standard deviation of what the forecast is off by, on a machine never seen
  double noise = 0;  // standard deviation of the run itself
};

/// The standard deviation of a run on a machine that nobody watches; a run may state a larger one.
inline constexpr double kRunNoise = 0.05;
/// What a correction cannot carry over from the models that were run to another one. From the rows
/// of runtimes/measurements, as tests/calibration/other_models_test.cpp has them: where one model
/// corrects the others of its machine, regime and source, four of five are off by no more than the
/// interval that these give.
inline constexpr double kOtherModelsDecode = 0.11, kOtherModelsPrefill = 0.35;
/// Standard deviations from the middle of a normal distribution to the end of its 80 % interval.
inline constexpr double kNormal80 = 1.2816;

/// What runs of one metric say of the speed of a machine. The middle lies between theirs and the
/// forecast, the nearer to theirs the more they are and the less the forecast is worth.
/// `other_models`: standard deviation that no number of runs takes away.
Correction::Speed speed_of_runs(std::span<const OwnRun> runs, double other_models);

}  // namespace rigcast
