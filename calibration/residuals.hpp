#pragma once
// How far forecasts were off, by what they forecast and how it was placed.

#include <functional>
#include <string>
#include <vector>

#include "calibration/left_out.hpp"

namespace rigcast::calibration {

/// Shares of the rows weigh chips equally: each row counts as one over the rows of its chip.
struct Accuracy {
  std::string metric, regime;
  int rows = 0, chips = 0;
  double fitted_median = 0, fitted_p90 = 0;  // absolute errors, as shares of the measured
  double left_out_median = 0, left_out_p90 = 0;
  double bias = 0;     // mean of the left-out errors
  double covered = 0;  // share inside the 80 % interval that the other chips' errors give
};

/// For both metrics: every regime, "deep context", "quantized KV", and "all".
std::vector<Accuracy> accuracy(const std::vector<Sample>& samples, const LeftOut& errors);

/// Of every metric and regime with enough chips, and of "all".
std::vector<RuntimeProfile::Spread> spreads(const std::vector<Sample>& samples,
                                            const LeftOut& errors);

}  // namespace rigcast::calibration
