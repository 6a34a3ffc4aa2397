#pragma once
// Forecasts beside what others measured: row by row, and how far off they are by kind of placement.
// The JSON keys are a contract (docs/report.md).

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/scenario/regime.hpp"
#include "measurements/measurement.hpp"
#include "report/activity.hpp"
#include "report/report.hpp"
#include "validation/row_group.hpp"

namespace rigcast {

/// A report's figure for a metric.
struct PredictedFigure {
  double value = 0;
  std::optional<Interval> interval;
};
/// nullopt: nothing finite above zero.
std::optional<PredictedFigure> figure_of(const Report& report, Metric metric);

struct ValidationRow {
  std::string id;
  std::string rig;
  std::string what;  // "llama-3.1-8b Q4_K_M"
  std::string load;  // of a server: "16 users: 1,024 in, 128 out"; empty: one request
  std::string chip;  // rows of one chip are no independent measurements
  Regime regime = Regime::kResident;
  bool deep = false;  // 8,192 tokens or more in the cache
  bool quantized_kv = false;
  bool ram_known = true;  // the RAM's bandwidth follows from what is stated
  std::string metric;     // "tg_tps"
  double predicted = 0, measured = 0;
  std::optional<Interval> interval;
  bool counted = true;   // no: figures of the runtime profile were fitted on it
  bool gpu = false;      // the rig has one
  bool pressed = false;  // memory was limited, or swapped ([memory])
  std::string suite;     // path of the kept runs that it belongs to; empty: it was not kept
  // `scale`: the reference for relative errors; 0: the measured value. `allowed`: an absolute
  // difference that always passes.
  double scale = 0, allowed = 0;

  double error() const { return predicted / measured - 1; }
  /// The measured figure is in the interval of the predicted one; nullopt: there is none.
  std::optional<bool> inside() const;
};

/// Chips count alike, however many rows they have.
struct ValidationSummary {
  std::string metric;
  RowGroup group;
  int n = 0;  // rows
  int chips = 0;
  double median_abs_error = 0;  // of |error|, a share
  double p90_abs_error = 0;
  double bias = 0;      // mean error
  double coverage = 0;  // inside their intervals; not a number where rows have none
};

/// Summaries of the rows that count: by metric, then a line for each regime that has rows, then for
/// deep context, quantized KV, all.
std::vector<ValidationSummary> summarize(std::span<const ValidationRow> rows);

struct SkippedRun {
  std::string id;
  std::string reason;
};

/// Time of one kind of activity in a phase; for decode, per token.
struct ActivityRow {
  Phase phase = Phase::kDecode;
  ActivityKind kind = ActivityKind::kHostWork;
  double predicted_s = 0, measured_s = 0;
};

struct Validation {
  std::string against;  // the file, or the folder of runs
  std::string when;     // of runs: "forecasts written from ... on, runs ended ..."; empty: not told
  std::vector<ValidationRow> rows;
  std::vector<ValidationSummary> summary;
  std::vector<ActivityRow> activities;    // of one scenario that was run
  std::optional<double> traced_slowdown;  // the largest, of the traced runs: a share of the time
  std::vector<SkippedRun> skipped;        // with rows, all runs of the file
  std::vector<SkippedRun> notes;          // what is to be known of runs that have rows
};

/// The limit of a median error, in any regime.
struct ErrorLimit {
  std::string metric;  // as rows name it; empty: every one
  double share = 0;
};
/// "tg_tps=0.2"; the metric "median_abs_error" stands for every one.
Result<ErrorLimit> parse_error_limit(std::string_view text);
/// A sentence for everything that exceeds a limit, and for a limit that no row is held against.
std::vector<std::string> exceeded(std::span<const ValidationSummary> summary,
                                  std::span<const ErrorLimit> limits);

}  // namespace rigcast
