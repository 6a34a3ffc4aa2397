#pragma once
// How many published rows the program forecasts, and whether a table of left-out rows is its own.

#include <map>
#include <span>
#include <string>
#include <vector>

#include "calibration/left_out_rows.hpp"
#include "validation/validation.hpp"

namespace rigcast::calibration {

/// Counts of rows. Usable: decode or prefill, not marked as doubtful by its source.
struct ForecastCoverage {
  int usable = 0;
  int forecast = 0;                       // of the usable ones
  int fitted_forecast = 0;                // of these, in the table
  std::map<std::string, int> not_fitted;  // forecast, but not in the table: by regime
  std::map<std::string, int> skipped;     // usable without a forecast: by reason
  int fitted = 0;                         // rows of the table
  int same = 0;  // of these, with a forecast that is the table's fitted one
  // Some that are not the same: "XD0009 (98.2, now 51.3)".
  std::vector<std::string> changed;
};

/// `measured`: what `validation` was made from.
ForecastCoverage forecast_coverage(std::span<const LeftOutRow> rows,
                                   std::span<const Measurement> measured,
                                   const Validation& validation);

/// A sentence if the table is of another program or profile, and one if too few rows are forecast.
std::vector<std::string> shortcomings(const ForecastCoverage& coverage);

}  // namespace rigcast::calibration
