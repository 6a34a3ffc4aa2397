#pragma once
// Calibration of a runtime's profile by runs that `rigcast validate` kept.

#include <span>
#include <string>

#include "calibration/runs/fit_runs.hpp"

namespace rigcast::calibration {

struct RunsCalibration {
  KeptRows kept;
  RunFit fit;
  std::string toml;  // fitted_profile
};

/// Fits a profile. `files`: packed files of `rigcast validate --pack`, or folders of `--keep`.
/// `jobs`: the number of processes that forecast at the same time.
Result<RunsCalibration> calibrate_on_runs(std::span<const std::string> files,
                                          const Catalogue& catalogue, int jobs);

/// The text of the profile's file with the fitted figures; everything else in it is unchanged.
/// `files`: the files of the runs.
Result<std::string> fitted_profile(const KeptRows& kept, const RunFit& fit,
                                   std::span<const std::string> files);

}  // namespace rigcast::calibration
