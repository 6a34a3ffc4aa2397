#pragma once
// The figures of a runtime profile that runs of the engine on the user's machine determine. Unlike
// published speeds (calibration/fit/parameters.hpp), such runs also have times by activity.

#include <vector>

#include "calibration/fit/parameters.hpp"

namespace rigcast::calibration {

/// The parameters for runs on a CPU, or on a GPU, as far as the profile has them. The prior of each
/// is the profile's value: a deviation by a factor of e costs as much as one error of kRepeatNoise
/// (fit_runs.hpp).
std::vector<Parameter> run_parameters(const RuntimeProfile& profile, bool on_gpu);

}  // namespace rigcast::calibration
