#pragma once
// What a fit on kept runs says, for people and for programs.

#include <string>

#include "calibration/runs/calibrate_on_runs.hpp"

namespace rigcast::calibration {

/// "rigcast.run_calibration/1".
std::string to_json(const RunsCalibration& done);
/// For people: figures before and after, errors by metric, the rows farthest off.
std::string to_text(const RunsCalibration& done);

}  // namespace rigcast::calibration
