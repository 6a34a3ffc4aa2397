#pragma once
// How far off forecasts are by kind of activity, over many runs.

#include <span>
#include <string>
#include <vector>

#include "validation/validation.hpp"

namespace rigcast {

struct ActivitySummary {
  std::string activity;  // "prefill attention"
  int runs = 0;
  double share = 0;  // of what was measured of its phase and forecast, median
  double median_abs_error = 0, median_error = 0;
  double worst_error = 0;  // with its sign
};

/// Summaries of the rows that count, in the order in which their activities come.
std::vector<ActivitySummary> summarize_activities(std::span<const ValidationRow> rows);

}  // namespace rigcast
