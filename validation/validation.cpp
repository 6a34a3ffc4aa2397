#include "validation/validation.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>

#include "core/base/quantile.hpp"

namespace rigcast {
namespace {

constexpr Metric kMetrics[] = {Metric::kTg, Metric::kPp, Metric::kTtft, Metric::kLoad,
                               Metric::kVram};
// Metrics of a scenario that was run: paths in its report.
constexpr std::string_view kOfReports[] = {
    "decode.tokens_per_s", "prefill_tokens_per_s", "ttft.resident.total_s",
    "ttft.warm.total_s",   "ttft.cold.total_s",    "memory.0.total",
    "memory.vram",         "memory.ram",           "cliffs.0.at_tokens"};
constexpr std::string_view kEveryMetric = "median_abs_error";

using Group = std::vector<const ValidationRow*>;

// 1 / rows of its chip in the group.
std::vector<double> chip_weights(const Group& group) {
  std::map<std::string_view, int> rows;
  for (const ValidationRow* row : group) ++rows[row->chip];
  std::vector<double> weights;
  for (const ValidationRow* row : group) weights.push_back(1.0 / rows[row->chip]);
  return weights;
}

double quantile_of(const std::vector<double>& values, const std::vector<double>& weights,
                   double share) {
  std::vector<Weighted> all;
  for (std::size_t i = 0; i < values.size(); ++i) all.push_back({values[i], weights[i]});
  return weighted_quantile(all, share);
}

double weighted_mean(const std::vector<double>& values, const std::vector<double>& weights) {
  return std::inner_product(values.begin(), values.end(), weights.begin(), 0.0) /
         std::reduce(weights.begin(), weights.end());
}

// Chips weigh alike among the rows that have an interval.
double coverage_of(Group group) {
  std::erase_if(group, [](const ValidationRow* row) { return !row->interval; });
  if (group.empty()) return std::numeric_limits<double>::quiet_NaN();
  std::vector<double> inside;
  for (const ValidationRow* row : group) inside.push_back(*row->inside() ? 1.0 : 0.0);
  return weighted_mean(inside, chip_weights(group));
}

ValidationSummary summary_of(const std::string& metric, const RowGroup& row_group,
                             const Group& group) {
  const std::vector<double> weights = chip_weights(group);
  std::vector<double> errors, sizes;
  for (const ValidationRow* row : group) {
    errors.push_back(row->error());
    sizes.push_back(std::fabs(row->error()));
  }
  ValidationSummary s{metric, row_group, int(group.size())};
  s.chips = int(std::lround(std::reduce(weights.begin(), weights.end())));
  s.median_abs_error = quantile_of(sizes, weights, 0.5);
  s.p90_abs_error = quantile_of(sizes, weights, 0.9);
  s.bias = weighted_mean(errors, weights);
  s.coverage = coverage_of(group);
  return s;
}

// The known ones in their order, then others as they come.
std::vector<std::string> metrics_of(std::span<const ValidationRow> rows) {
  std::vector<std::string> found;
  for (const Metric metric : kMetrics) found.emplace_back(name(metric));
  for (const ValidationRow& row : rows)
    if (std::ranges::find(found, row.metric) == found.end()) found.push_back(row.metric);
  return found;
}

}  // namespace

std::optional<PredictedFigure> figure_of(const Report& report, Metric metric) {
  const auto figure = [&]() -> std::optional<PredictedFigure> {
    switch (metric) {
      case Metric::kTg:
        return PredictedFigure{1 / report.tpot.mean.value, report.tokens_per_s_interval};
      case Metric::kPp:
        return PredictedFigure{report.prefill_tokens_per_s, report.prefill_interval};
      case Metric::kTtft:
        if (!report.ttft()) return std::nullopt;
        return PredictedFigure{report.ttft()->total().value, report.ttft_interval};
      case Metric::kLoad:
        if (!report.warm) return std::nullopt;
        return PredictedFigure{report.warm->load.value, std::nullopt};
      case Metric::kVram: {
        Bytes sum;
        for (const DeviceMemory& d : report.memory.devices)
          if (d.tier == Tier::kVram) sum += d.needed();
        return PredictedFigure{sum.value / 1e9, std::nullopt};
      }
    }
    return std::nullopt;
  }();
  if (!figure || !std::isfinite(figure->value) || figure->value <= 0) return std::nullopt;
  return figure;
}

std::optional<bool> ValidationRow::inside() const {
  if (!interval) return std::nullopt;
  return interval->lo <= measured && measured <= interval->hi;
}

std::vector<ValidationSummary> summarize(std::span<const ValidationRow> rows) {
  std::vector<ValidationSummary> out;
  for (const std::string& metric : metrics_of(rows))
    for (const RowGroup& row_group : row_groups()) {
      Group group;
      for (const ValidationRow& row : rows)
        if (row.counted && row.metric == metric &&
            row_group.contains(row.regime, row.deep, row.quantized_kv))
          group.push_back(&row);
      if (!group.empty()) out.push_back(summary_of(metric, row_group, group));
    }
  return out;
}

Result<ErrorLimit> parse_error_limit(std::string_view text) {
  const auto equals = text.find('=');
  const std::string_view metric = text.substr(0, equals);
  ErrorLimit limit;
  if (metric != kEveryMetric) limit.metric = metric;
  std::vector<std::string_view> names;
  for (const Metric m : kMetrics) names.push_back(name(m));
  names.insert(names.end(), std::begin(kOfReports), std::end(kOfReports));
  const bool is_known = metric == kEveryMetric || std::ranges::find(names, metric) != names.end();
  if (equals == std::string_view::npos || !is_known) {
    std::string known;
    for (const std::string_view n : names) known += fmt::format("{}, ", n);
    return bad_input(
        equals == std::string_view::npos ? fmt::format("expected METRIC=X, got \"{}\"", text)
                                         : fmt::format("no metric named \"{}\"", metric),
        fmt::format("known: {}or {} for every one; for example tg_tps=0.2", known, kEveryMetric));
  }
  const std::string_view share = text.substr(equals + 1);
  const char* const end = share.data() + share.size();
  const auto parsed = std::from_chars(share.data(), end, limit.share);
  if (parsed.ec != std::errc() || parsed.ptr != end || !(limit.share >= 0 && limit.share <= 1))
    return bad_input(fmt::format("{}: \"{}\" is no share from 0 to 1", metric, share),
                     fmt::format("{}=0.2 is 20 %", metric));
  return limit;
}

std::vector<std::string> exceeded(std::span<const ValidationSummary> summary,
                                  std::span<const ErrorLimit> limits) {
  std::vector<std::string> out;
  for (const ErrorLimit& limit : limits) {
    const std::string metric(limit.metric.empty() ? kEveryMetric : limit.metric);
    bool held = false;
    for (const ValidationSummary& s : summary) {
      if (s.group.kind != RowGroup::Kind::kRegime || (!limit.metric.empty() && s.metric != metric))
        continue;
      held = true;
      if (s.median_abs_error > limit.share)
        out.push_back(fmt::format("{}, {}: the median error of {:.1f} % is above {:.4g} %",
                                  s.metric, name(s.group), 100 * s.median_abs_error,
                                  100 * limit.share));
    }
    if (!held) out.push_back(fmt::format("{}: there is no row to hold against the limit", metric));
  }
  return out;
}

}  // namespace rigcast
