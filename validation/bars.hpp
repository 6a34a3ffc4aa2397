#pragma once
// Limits on the errors of forecasts, and whether they hold.

#include <filesystem>
#include <optional>
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
  bool pressed = false;          // of runs under memory pressure, and of no others
  bool exact = false;            // of figures that are forecast without an interval
  double median = 0;             // of the errors' sizes, as a share
  std::optional<double> worst;   // likewise; nullopt: any is allowed
  double allowed = 0;            // an error no larger is within, in the metric's own unit
  std::optional<double> inside;  // the least share of rows inside their intervals
};

/// Exceptions for a suite: bars to which its runs are not held, or the only ones to which they are.
struct SuiteBars {
  std::string suite;               // how the path of its runs ends: "h200-16-cores/gpu-kv"
  std::vector<std::string> alone;  // where no other is judged: held to these alone; empty: to all
  std::vector<std::string> never;  // not held to these
  std::string reason;
};

struct Bars {
  std::vector<ErrorBar> bars;
  std::vector<SuiteBars> suites;
};

/// [[bar]]: `label`, `on` ("cpu" or "gpu"), `metric`, `median` or `inside`; if wanted `worst`,
/// `regimes`, `pressed`, `exact` and `allowed` (a size, of memory). [[suite]]: `name`, `reason`;
/// `alone`, `never`: labels of bars.
Result<Bars> read_bars(const std::filesystem::path& file);

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
  bool inside_holds = true;           // enough rows are inside their intervals
  // Where it holds on the whole, but not in each regime: the one that it is farthest off in.
  std::optional<Regime> missed_in;
  double missed_median = 0;
  bool worst_holds = false;
  std::vector<Run> beyond;  // runs that are not within the median's bar
};

/// Judges the rows that count: all together and, where a bar names several regimes, each of them. A
/// bar without rows has no verdict.
std::vector<BarVerdict> judge(std::span<const ValidationRow> rows, const Bars& bars);
/// A sentence for every suite among the rows that not every bar is for: which bars, and why.
std::vector<std::string> exceptions(std::span<const ValidationRow> rows, const Bars& bars);

/// How many measured speeds, of decode and prefill, are inside their intervals.
struct IntervalCount {
  int inside = 0, with_interval = 0;
};
IntervalCount speed_intervals(std::span<const BarVerdict> verdicts);

struct LargeError {
  std::string label;  // of the bar
  BarVerdict::Run run;
};
/// The largest errors among runs that are not within the median's bar, largest first.
std::vector<LargeError> largest_errors(std::span<const BarVerdict> verdicts, std::size_t count);

/// A sentence for every bar whose median does not hold, or which too few intervals hold.
std::vector<std::string> missed(std::span<const BarVerdict> verdicts);

/// A line a bar, for people.
std::string to_text(std::span<const BarVerdict> verdicts);

}  // namespace rigcast
