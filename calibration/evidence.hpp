#pragma once
// What a forecast rests on: the rows of a fit's table of left-out forecasts that are like it.

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "calibration/accuracy.hpp"

namespace rigcast::calibration {

/// What is forecast.
struct EvidenceQuery {
  std::string chip;                   // as in LeftOutRow
  std::vector<std::string> families;  // of the chip
  std::string model;                  // its id
  std::string quant;                  // name of the mix
  Regime regime = Regime::kResident;
};

/// Rows that have something in common with the forecast.
struct EvidenceGroup {
  std::string what;  // "this chip", "its family, ampere"
  int rows = 0, chips = 0, sources = 0;
  std::vector<std::pair<int, int>> by_year;  // of the build, and rows; year 0: not known
  std::optional<ErrorQuantiles> left_out;    // chips equal; nullopt without rows
};

/// What speaks for the forecast of one metric.
struct Evidence {
  SpeedMetric metric = SpeedMetric::kDecode;
  std::vector<EvidenceGroup> groups;  // from the nearest to all rows of the regime
  std::vector<LeftOutRow> nearest;    // nearest first
};

/// The evidence for one metric. `nearest`: how many of the nearest rows to keep; rows of another
/// regime are never among them.
Evidence evidence(std::span<const LeftOutRow> rows, const EvidenceQuery& query, SpeedMetric metric,
                  std::size_t nearest);

}  // namespace rigcast::calibration
