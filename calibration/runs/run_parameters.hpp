#pragma once
// The figures of a runtime profile that runs of the engine on one's own machine tell, beside those
// of others' published speeds (calibration/parameters.hpp): such runs also tell times by activity.

#include <vector>

#include "calibration/parameters.hpp"
#include "validation/runs/execute_options.hpp"

namespace rigcast::calibration {

/// Those of runs on a CPU, or on a GPU, as far as the profile has them. Each is likely to be what
/// the profile says: a factor of e costs as much as one error of kRepeatNoise (fit_runs.hpp).
std::vector<Parameter> run_parameters(const RuntimeProfile& profile, validation::Device device);

}  // namespace rigcast::calibration
