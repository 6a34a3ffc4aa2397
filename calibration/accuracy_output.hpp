#pragma once
// The accuracy of a fit for people, and as JSON for other programs (scripts/accuracy.py).

#include <span>
#include <string>

#include "calibration/accuracy.hpp"
#include "calibration/forecast_coverage.hpp"
#include "calibration/left_out_bars.hpp"

namespace rigcast::calibration {

/// A table for each metric: a line for each regime.
std::string to_text(std::span<const Accuracy> all);
/// "rigcast.calibration/1": the summary and all rows of a fit.
std::string to_json(std::span<const Accuracy> all, std::span<const LeftOutRow> rows);

/// What is known of a fit from its table of left-out rows.
struct LeftOutReport {
  std::vector<LeftOutRow> rows;
  std::string sweep;                     // the source that is judged apart; empty: none
  std::vector<LeftOutVerdict> verdicts;  // none without bars
  ForecastCoverage coverage;
};
std::string to_text(const LeftOutReport& report);
/// "rigcast.left-out/1". `measured`: whose tool and notes are written beside the rows farthest off.
std::string to_json(const LeftOutReport& report, std::span<const Measurement> measured);

}  // namespace rigcast::calibration
