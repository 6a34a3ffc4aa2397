#pragma once
// Limits on the errors of forecasts, and whether they hold.

#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "core/base/error.hpp"
#include "validation/validation.hpp"

namespace rigcast {

/// A limit for the rows of one figure, on machines with a GPU or on those without.
struct ErrorBar {
  std::string label;
  std::string metric;  // as rows name it
  bool gpu = false;
  std::vector<Regime> regimes;   // empty: every one
  double median = 0, worst = 0;  // of the errors' sizes, as shares
  double allowed = 0;            // an error no larger is within, in the metric's own unit
};

/// A list of [[bar]]: `label`, `on` ("cpu" or "gpu"), `metric`, `median`, `worst`; if wanted
/// `regimes` and `allowed` (a size, of memory).
Result<std::vector<ErrorBar>> read_bars(const std::filesystem::path& file);

struct BarVerdict {
  struct Run {
    std::string id;
    double error = 0;  // with its sign
  };
  ErrorBar bar;
  int runs = 0;
  double median = 0;
  Run worst;
  int inside = 0, with_interval = 0;  // rows inside their intervals, of those that have one
  bool median_holds = false;          // or more than half of the runs are within it
  bool worst_holds = false;
  std::vector<Run> beyond;  // runs that are not within the median's bar
};

/// Judges the rows that count. A bar without rows has no verdict.
std::vector<BarVerdict> judge(std::span<const ValidationRow> rows, std::span<const ErrorBar> bars);

/// A sentence for every bar whose median does not hold.
std::vector<std::string> missed(std::span<const BarVerdict> verdicts);

/// A line a bar, for people.
std::string to_text(std::span<const BarVerdict> verdicts);

}  // namespace rigcast
