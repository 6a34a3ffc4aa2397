#include "calibration/accuracy.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <tuple>

#include "core/base/quantile.hpp"

namespace rigcast::calibration {
namespace {

constexpr int kEnoughChips = 4;
constexpr double kTail = 0.10;  // probability on either side of an 80 % interval
// chips: an unseen chip may be outside of the range of those seen, on either side.
constexpr double kBeyond = 0.5;

struct Group {
  SpeedMetric metric;
  RowGroup group;
  std::vector<LeftOutRow> rows;
};

// All pairs of metric and group that have rows.
std::vector<Group> groups(std::span<const LeftOutRow> rows) {
  std::vector<Group> all;
  for (const SpeedMetric metric : {SpeedMetric::kDecode, SpeedMetric::kPrefill})
    for (const RowGroup& group : row_groups()) {
      Group g{metric, group, {}};
      for (const LeftOutRow& row : rows)
        if (row.metric == metric && group.contains(row.regime, row.deep, row.quantized_kv))
          g.rows.push_back(row);
      if (!g.rows.empty()) all.push_back(std::move(g));
    }
  return all;
}

std::map<std::string, int> rows_by_chip(std::span<const LeftOutRow> rows) {
  std::map<std::string, int> count;
  for (const LeftOutRow& row : rows) ++count[row.chip];
  return count;
}

ErrorQuantiles quantiles_of(std::span<const LeftOutRow> rows, double LeftOutRow::*error,
                            Weighing weighing) {
  const auto count = rows_by_chip(rows);
  std::vector<Weighted> sizes;
  for (const LeftOutRow& row : rows)
    sizes.push_back({std::abs(std::exp(row.*error) - 1.0),
                     weighing == Weighing::kRowsEqual ? 1.0 : 1.0 / count.at(row.chip)});
  return {weighted_quantile(sizes, 0.5), weighted_quantile(sizes, 0.9)};
}

double bias_of(std::span<const LeftOutRow> rows) {
  const auto count = rows_by_chip(rows);
  double sum = 0;
  for (const LeftOutRow& row : rows)
    sum += 1.0 / count.at(row.chip) * (std::exp(row.left_out) - 1.0);
  return sum / double(count.size());
}

// Left-out errors without those of one chip; logarithms of measured over forecast.
std::vector<Weighted> ratios(std::span<const LeftOutRow> rows, const std::string& without) {
  const auto count = rows_by_chip(rows);
  std::vector<Weighted> out;
  for (const LeftOutRow& row : rows)
    if (row.chip != without) out.push_back({-row.left_out, 1.0 / count.at(row.chip)});
  return out;
}

double coverage(std::span<const LeftOutRow> rows) {
  const auto count = rows_by_chip(rows);
  if (count.size() < 2) return std::numeric_limits<double>::quiet_NaN();
  double inside = 0;
  for (const auto& [chip, own] : count) {
    const auto others = ratios(rows, chip);
    const double low = weighted_quantile(others, kTail, kBeyond);
    const double high = weighted_quantile(others, 1.0 - kTail, kBeyond);
    for (const LeftOutRow& row : rows)
      if (row.chip == chip && -row.left_out >= low && -row.left_out <= high) inside += 1.0 / own;
  }
  return inside / double(count.size());
}

}  // namespace

ErrorQuantiles left_out_quantiles(std::span<const LeftOutRow> rows, Weighing weighing) {
  return quantiles_of(rows, &LeftOutRow::left_out, weighing);
}

int chips(std::span<const LeftOutRow> rows) { return int(rows_by_chip(rows).size()); }

std::vector<Accuracy> accuracy(std::span<const LeftOutRow> rows) {
  std::vector<Accuracy> out;
  for (const Group& g : groups(rows)) {
    const auto fitted = quantiles_of(g.rows, &LeftOutRow::fitted, Weighing::kChipsEqual);
    const auto left_out = left_out_quantiles(g.rows, Weighing::kChipsEqual);
    Accuracy a;
    a.metric = g.metric;
    a.group = g.group;
    a.rows = int(g.rows.size());
    a.chips = chips(g.rows);
    a.fitted_median = fitted.median;
    a.fitted_p90 = fitted.p90;
    a.left_out_median = left_out.median;
    a.left_out_p90 = left_out.p90;
    a.bias = bias_of(g.rows);
    a.covered = coverage(g.rows);
    out.push_back(a);
  }
  return out;
}

std::vector<RuntimeProfile::Spread> spreads(std::span<const LeftOutRow> rows) {
  std::vector<RuntimeProfile::Spread> out;
  for (const Group& g : groups(rows)) {
    const bool is_all = g.group.kind == RowGroup::Kind::kAll;
    const bool is_regime = g.group.kind == RowGroup::Kind::kRegime;
    if (!is_all && !(is_regime && chips(g.rows) >= kEnoughChips)) continue;
    const auto all = ratios(g.rows, "");
    out.push_back({g.metric, std::string(name(g.group)),
                   std::exp(weighted_quantile(all, kTail, kBeyond)),
                   std::exp(weighted_quantile(all, 1.0 - kTail, kBeyond)), int(g.rows.size()),
                   chips(g.rows)});
  }
  return out;
}

std::vector<LeftOutRow> farthest_off(std::span<const LeftOutRow> rows, std::size_t count,
                                     int of_a_chip) {
  std::vector<LeftOutRow> ordered(rows.begin(), rows.end());
  std::ranges::sort(ordered, {}, [](const LeftOutRow& row) {
    return std::tuple(-std::abs(row.left_out), row.id);
  });
  std::map<std::string, int> seen;
  std::vector<LeftOutRow> out;
  for (const LeftOutRow& row : ordered)
    if (out.size() < count && ++seen[row.chip] <= of_a_chip) out.push_back(row);
  return out;
}

}  // namespace rigcast::calibration
