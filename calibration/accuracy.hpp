#pragma once
// Errors of forecasts, by metric and by regime.

#include <span>
#include <vector>

#include "calibration/left_out_rows.hpp"
#include "validation/row_group.hpp"

namespace rigcast::calibration {

/// Weighted quantiles of the sizes of errors, as shares of the measured value.
struct ErrorQuantiles {
  double median = 0, p90 = 0;
};
enum class Weighing {
  kChipsEqual,
  kRowsEqual
};  // a row counts as one over its chip's rows, or one
/// Quantiles of the left-out errors of at least one row.
ErrorQuantiles left_out_quantiles(std::span<const LeftOutRow> rows, Weighing weighing);

int chips(std::span<const LeftOutRow> rows);

/// Chips count equally: each row counts as one over the number of its chip's rows.
struct Accuracy {
  SpeedMetric metric = SpeedMetric::kDecode;
  RowGroup group;
  int rows = 0, chips = 0;
  double fitted_median = 0, fitted_p90 = 0;  // absolute errors, relative to the measured value
  double left_out_median = 0, left_out_p90 = 0;
  double bias = 0;  // mean of the left-out errors
  // Share of rows inside the 80 % interval that the other chips' errors give; not a number where
  // all are of one chip.
  double covered = 0;
};

/// Accuracy for both metrics: of every regime, "deep context", "quantized KV", and "all".
std::vector<Accuracy> accuracy(std::span<const LeftOutRow> rows);

/// Spreads of every metric and regime with enough chips, and of "all".
std::vector<RuntimeProfile::Spread> spreads(std::span<const LeftOutRow> rows);

/// The rows with the largest factor between left-out forecast and measured speed, largest first.
/// `of_a_chip`: how many of one chip at most.
std::vector<LeftOutRow> farthest_off(std::span<const LeftOutRow> rows, std::size_t count,
                                     int of_a_chip);

}  // namespace rigcast::calibration
