#pragma once
// Errors of kept runs' forecasts, and how they change with a profile's figures: by differences, on
// several cores.

#include <vector>

#include "calibration/parameters.hpp"
#include "calibration/runs/kept_rows.hpp"

namespace rigcast::calibration {

struct ForecastErrors {
  std::vector<double> at;                     // by row; empty: a row has no forecast
  std::vector<std::vector<double>> per_step;  // by parameter, then by row: d error / d log(value)
};

/// At `logs`, logarithms of the parameters' values. `derivatives`: else `per_step` is empty.
/// `jobs`: processes that forecast at the same time.
ForecastErrors forecast_errors(const KeptRows& kept, const std::vector<Parameter>& parameters,
                               const std::vector<double>& logs, bool derivatives, int jobs);

}  // namespace rigcast::calibration
