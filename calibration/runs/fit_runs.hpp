#pragma once
// A fit of a profile's figures on kept runs: repeats forecasts until speeds and times by activity
// agree best.

#include <string>
#include <vector>

#include "calibration/fit/parameters.hpp"
#include "calibration/runs/kept_rows.hpp"

namespace rigcast::calibration {

/// Half of the runs deviate by less than this share, even with a perfect model: the repeatability
/// of a shared machine.
inline constexpr double kRepeatNoise = 0.03;

inline constexpr int kMaxSteps = 25;
inline constexpr double kMinGain = 1e-4;  // relative gain

struct RunFit {
  std::vector<Parameter> parameters;  // parameters on which some forecast depends
  std::vector<double> values;         // fitted values of these parameters
  std::vector<std::string> untold;    // paths of the other parameters, which do not change
  std::vector<double> errors;         // log(forecast / measured) by row of KeptRows, fitted
  double cost_before = 0, cost = 0;   // the cost function, which the fit minimizes
};

/// Minimizes half of the sum of rho over the rows' weighted errors in units of kRepeatNoise, and
/// over the parameters' distances from their likely values in units of their spreads. rho(r) = 2
/// (sqrt(1 + r^2) - 1), so that outliers do not dominate. Ends when a step reduces the cost by less
/// than kMinGain. `start`: logarithms of the parameters' values; only those change on which a row
/// depends. `jobs`: the number of processes that forecast at the same time. Errors: a missing
/// forecast, or no solution.
Result<RunFit> fit_runs(const KeptRows& kept, const std::vector<Parameter>& parameters,
                        const std::vector<double>& start, int jobs);

}  // namespace rigcast::calibration
