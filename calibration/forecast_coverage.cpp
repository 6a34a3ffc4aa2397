#include "calibration/forecast_coverage.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <set>

namespace rigcast::calibration {
namespace {

// What rounding of the fitted figures and sampling of positions may change of a forecast.
constexpr double kNear = 0.02;
// The fit computes prefill over several GPUs in closed form; the program overlaps their ubatches.
constexpr double kNearIfOverlapped = 0.10;
constexpr double kMinSame = 0.98;
constexpr double kMinForecast = 0.80;
constexpr std::size_t kMaxShown = 5;

bool is_usable(const Measurement& m) { return !m.doubtful() && speed_metric(m.metric); }

bool is_near(const LeftOutRow& row, double forecast) {
  const bool overlapped = row.metric == SpeedMetric::kPrefill && row.regime == Regime::kSeveralGpus;
  return std::abs(forecast / row.fitted_speed() - 1) <= (overlapped ? kNearIfOverlapped : kNear);
}

void compare(std::span<const LeftOutRow> rows, const Validation& validation,
             ForecastCoverage& coverage) {
  std::map<std::string_view, double> forecasts;
  for (const ValidationRow& row : validation.rows) forecasts[row.id] = row.predicted;
  for (const LeftOutRow& row : rows) {
    const auto now = forecasts.find(row.id);
    const bool is_same = now != forecasts.end() && is_near(row, now->second);
    coverage.same += is_same;
    if (!is_same && coverage.changed.size() < kMaxShown)
      coverage.changed.push_back(
          fmt::format("{} ({:.6g}, now {})", row.id, row.fitted_speed(),
                      now == forecasts.end() ? "none" : fmt::format("{:.6g}", now->second)));
  }
}

}  // namespace

ForecastCoverage forecast_coverage(std::span<const LeftOutRow> rows,
                                   std::span<const Measurement> measured,
                                   const Validation& validation) {
  std::set<std::string_view> usable, fitted;
  for (const Measurement& m : measured)
    if (is_usable(m)) usable.insert(m.id);
  for (const LeftOutRow& row : rows) fitted.insert(row.id);
  ForecastCoverage out;
  out.usable = int(usable.size());
  out.fitted = int(rows.size());
  for (const ValidationRow& row : validation.rows) {
    if (!usable.contains(row.id)) continue;
    ++out.forecast;
    if (fitted.contains(row.id))
      ++out.fitted_forecast;
    else
      ++out.not_fitted[std::string(name(row.regime))];
  }
  for (const SkippedRun& run : validation.skipped)
    if (usable.contains(run.id)) ++out.skipped[run.reason];
  compare(rows, validation, out);
  return out;
}

std::vector<std::string> shortcomings(const ForecastCoverage& c) {
  std::vector<std::string> out;
  if (c.same < kMinSame * c.fitted)
    out.push_back(
        fmt::format("the table of left-out rows is of another profile or program: only {} of {} "
                    "fitted forecasts are this program's; these differ: {}",
                    c.same, c.fitted, fmt::join(c.changed, ", ")));
  if (c.forecast < kMinForecast * c.usable)
    out.push_back(fmt::format("only {} of {} usable rows are forecast", c.forecast, c.usable));
  return out;
}

}  // namespace rigcast::calibration
