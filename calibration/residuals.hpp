#pragma once
// Errors of forecasts, by metric and by regime.

#include <functional>
#include <string>
#include <vector>

#include "calibration/left_out.hpp"

namespace rigcast::calibration {

/// Shares weigh chips equally: each row counts as one over the number of its chip's rows.
struct Accuracy {
  std::string metric, regime;
  int rows = 0, chips = 0;
  double fitted_median = 0, fitted_p90 = 0;  // absolute errors, relative to the measured value
  double left_out_median = 0, left_out_p90 = 0;
  double bias = 0;  // mean of the left-out errors
  // Share of rows inside the 80 % interval that the other chips' errors give.
  double covered = 0;
};

/// Accuracy for both metrics: of every regime, "deep context", "quantized KV", and "all".
std::vector<Accuracy> accuracy(const std::vector<Sample>& samples, const LeftOut& errors);

/// Spreads of every metric and regime with enough chips, and of "all".
std::vector<RuntimeProfile::Spread> spreads(const std::vector<Sample>& samples,
                                            const LeftOut& errors);

}  // namespace rigcast::calibration
