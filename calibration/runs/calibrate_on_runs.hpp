#pragma once
// The profile of a runtime anew from runs on it that `rigcast validate` kept.

#include <span>
#include <string>

#include "calibration/runs/fit_runs.hpp"

namespace rigcast::calibration {

struct RunsCalibration {
  KeptRows kept;
  RunFit fit;
  std::string toml;  // fitted_profile
};

/// `files`: of `rigcast validate --pack`, or folders of `--keep`. `jobs`: processes that forecast
/// at the same time.
Result<RunsCalibration> calibrate_on_runs(std::span<const std::string> files,
                                          const Catalogue& catalogue, int jobs);

/// The file of the profile with the fitted figures; all else in it is as it was. `files`: the
/// runs'.
Result<std::string> fitted_profile(const KeptRows& kept, const RunFit& fit,
                                   std::span<const std::string> files);

}  // namespace rigcast::calibration
