#pragma once
// An estimate of a machine's speed from the user's own runs.

#include <span>

#include "core/hardware/rig.hpp"

namespace rigcast {

/// One run, with its prior. Logarithms throughout.
struct OwnRun {
  double ratio = 0;  // measured over forecast
  double prior = 0;  // standard deviation of the forecast's error, on a
  double noise = 0;  // standard deviation of the run itself
};

/// The default standard deviation of a run on an ordinary machine; a run may state a larger one.
inline constexpr double kRunNoise = 0.05;
/// The standard deviation, between models, of errors that a correction cannot remove: it comes from
/// other models than the one that is forecast. From the rows of runtimes/measurements, as in
/// tests/calibration/other_models_test.cpp: where one model corrects the others of its machine,
/// regime and source, four out of five errors are within the interval that these values give.
inline constexpr double kOtherModelsDecode = 0.14, kOtherModelsPrefill = 0.37;
/// Standard deviations from the center of a normal distribution to the end of its 80 % interval.
inline constexpr double kNormal80 = 1.2816;

/// Estimates the speed of a machine from runs of one metric. The center is between the runs and the
/// forecast: the nearer to the runs, the more of them there are and the less certain the forecast
/// is. `other_models`: a standard deviation that no number of runs reduces.
Correction::Speed speed_of_runs(std::span<const OwnRun> runs, double other_models);

}  // namespace rigcast
