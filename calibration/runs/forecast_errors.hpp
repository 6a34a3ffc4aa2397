#pragma once
// Errors of forecasts of kept runs, and their derivatives by a profile's figures: finite
// differences, on several cores.

#include <vector>

#include "calibration/fit/parameters.hpp"
#include "calibration/runs/kept_rows.hpp"

namespace rigcast::calibration {

struct ForecastErrors {
  std::vector<double> at;                     // by row; empty: a row has no forecast
  std::vector<std::vector<double>> per_step;  // by parameter, then by row: d error / d log(value)
};

/// Computes errors at `logs`, logarithms of the parameters' values. Without `derivatives`,
/// `per_step` is empty. `jobs`: the number of processes that forecast at the same time.
ForecastErrors forecast_errors(const KeptRows& kept, const std::vector<Parameter>& parameters,
                               const std::vector<double>& logs, bool derivatives, int jobs);

}  // namespace rigcast::calibration
