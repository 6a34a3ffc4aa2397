#pragma once
// Fits a profile's figures on kept runs: forecasts anew, until speeds and times by activity agree
// best.

#include <string>
#include <vector>

#include "calibration/parameters.hpp"
#include "calibration/runs/kept_rows.hpp"

namespace rigcast::calibration {

/// Half of the runs are off by less than this share, however good the model: what a machine with
/// neighbours repeats to.
inline constexpr double kRepeatNoise = 0.03;

inline constexpr int kMostSteps = 25;
inline constexpr double kLeastGain = 1e-4;  // a share

struct RunFit {
  std::vector<Parameter> parameters;  // those that a row's forecast depends on
  std::vector<double> values;         // of them, fitted
  std::vector<std::string> untold;    // paths of the others: they stay as they are
  std::vector<double> errors;         // log(forecast / measured) by row of KeptRows, fitted
  double cost_before = 0, cost = 0;   // what the fit makes least
};

/// Makes least half of the sum of rho over the rows' weighted errors in kRepeatNoise and over the
/// logarithms' distance from what is likely, in spreads; rho(r) = 2 (sqrt(1 + r^2) - 1), so that
/// what is far off does not decide. Ends where a step gains less than kLeastGain of it.
/// `start`: logarithms of the parameters' values, from which only those that a row depends on move.
/// `jobs`: processes that forecast at the same time. Errors: a forecast that is not there, or no
/// solution.
Result<RunFit> fit_runs(const KeptRows& kept, const std::vector<Parameter>& parameters,
                        const std::vector<double>& start, int jobs);

}  // namespace rigcast::calibration
