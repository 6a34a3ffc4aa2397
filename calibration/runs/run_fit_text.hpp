#pragma once
// Results of a fit on kept runs, as text and as JSON.

#include <string>

#include "calibration/runs/calibrate_on_runs.hpp"

namespace rigcast::calibration {

/// JSON of the schema "rigcast.run_calibration/1".
std::string to_json(const RunsCalibration& done);
/// Text for users: figures before and after, errors by metric, the rows with the largest errors.
std::string to_text(const RunsCalibration& done);

}  // namespace rigcast::calibration
