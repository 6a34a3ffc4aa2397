#include "calibration/accuracy_output.hpp"

#include <fmt/format.h>

#include <cmath>
#include <optional>

#include "report/json_values.hpp"
#include "report/terminal/text_style.hpp"

namespace rigcast::calibration {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kFarthest = 20;
constexpr int kFarthestOfAChip = 3;

// Names come from files of others, and may hold bytes that are no UTF-8.
std::string dump(const Json& json) {
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

Json accuracy_json(const Accuracy& a) {
  return {{"metric", name(a.metric)},
          {"regime", name(a.group)},
          {"rows", a.rows},
          {"chips", a.chips},
          {"fitted_median_abs_error", a.fitted_median},
          {"fitted_p90_abs_error", a.fitted_p90},
          {"left_out_median_abs_error", a.left_out_median},
          {"left_out_p90_abs_error", a.left_out_p90},
          {"bias", a.bias},
          {"coverage", json_number(a.covered)}};
}

// `chips` counts families; the fit that has seen all is no matter here.
Json family_json(const Accuracy& a) {
  return {{"metric", name(a.metric)},
          {"regime", name(a.group)},
          {"rows", a.rows},
          {"families", a.chips},
          {"left_out_median_abs_error", a.left_out_median},
          {"left_out_p90_abs_error", a.left_out_p90},
          {"bias", a.bias},
          {"coverage", json_number(a.covered)}};
}

Json row_json(const LeftOutRow& row) {
  return {{"id", row.id},
          {"chip", row.chip},
          {"rig", row.rig},
          {"model", row.model},
          {"quant", row.quant},
          {"regime", name(row.regime)},
          {"deep", row.deep},
          {"quantized_kv", row.quantized_kv},
          {"ram_known", row.ram_known},
          {"metric", name(row.metric)},
          {"measured", row.measured},
          {"fitted", row.fitted_speed()},
          {"left_out", row.left_out_speed()},
          {"family", row.family},
          {"family_left_out", row.family_left_out_speed()},
          {"source", row.source},
          {"year", row.year > 0 ? Json(row.year) : Json()}};
}

Json quantiles_json(const ErrorQuantiles& q) {
  return {{"median_abs_error", q.median}, {"p90_abs_error", q.p90}};
}

Json verdict_json(const LeftOutVerdict& v) {
  Json json = {{"name", v.bar.name},   {"of_sweep", v.bar.of_sweep},     {"chips", v.chips},
               {"rows", v.rows},       {"allowed_median", v.bar.median}, {"allowed_p90", v.bar.p90},
               {"limit", v.bar.limit}, {"applies", v.applies},           {"reached", v.reached}};
  json["chips_equal"] = v.rows > 0 ? quantiles_json(v.chips_equal) : Json();
  json["rows_equal"] = v.rows > 0 ? quantiles_json(v.rows_equal) : Json();
  return json;
}

// Kinds of builds that differ: before, and after llama.cpp's kernels of 2025.
struct BuildEra {
  const char* name;
  int first, last;
};
constexpr BuildEra kBuildEras[] = {
    {"to 2024", 1, 2024}, {"2025", 2025, 2025}, {"2026", 2026, 9999}};

Json eras_json(std::span<const LeftOutRow> rows) {
  Json all = Json::array();
  for (const BuildEra& era : kBuildEras) {
    std::vector<LeftOutRow> own;
    for (const LeftOutRow& row : rows)
      if (row.year >= era.first && row.year <= era.last) own.push_back(row);
    for (const Accuracy& a : accuracy(own)) {
      Json json = accuracy_json(a);
      json["builds"] = era.name;
      all.push_back(std::move(json));
    }
  }
  return all;
}

// The row with the text of its source, in which people look for the reason of an error.
Json stated_row_json(const LeftOutRow& row, std::span<const Measurement> measured) {
  Json json = row_json(row);
  json["error"] = std::expm1(row.left_out);
  for (const Measurement& m : measured)
    if (m.id == row.id) {
      json["tool"] = m.tool;
      json["notes"] = m.notes;
    }
  return json;
}

Json coverage_json(const ForecastCoverage& c) {
  return {{"usable", c.usable},
          {"forecast", c.forecast},
          {"forecast_share", c.usable > 0 ? Json(double(c.forecast) / c.usable) : Json()},
          {"fitted", c.fitted},
          {"fitted_forecast", c.fitted_forecast},
          {"not_fitted", c.forecast - c.fitted_forecast},
          {"not_fitted_by_regime", c.not_fitted},
          {"fitted_without_forecast", c.fitted - c.fitted_forecast},
          {"skipped_by_reason", c.skipped},
          {"same_as_fitted", c.same}};
}

}  // namespace

std::string to_text(std::span<const Accuracy> all) {
  std::string text;
  std::optional<SpeedMetric> metric;
  for (const Accuracy& a : all) {
    if (a.metric != metric)
      text += fmt::format("\n{:<16}{:>6}{:>7}{:>16}{:>10}{:>14}{:>10}{:>9}{:>9}\n", name(a.metric),
                          "chips", "rows", "fitted median", "p90", "left out med.", "p90", "bias",
                          "inside");
    metric = a.metric;
    text += fmt::format("{:<16}{:>6}{:>7}{:>16}{:>10}{:>14}{:>10}{:>9}{:>9}\n", name(a.group),
                        a.chips, a.rows, percent_text(a.fitted_median), percent_text(a.fitted_p90),
                        percent_text(a.left_out_median), percent_text(a.left_out_p90),
                        percent_text(a.bias), percent_text(a.covered));
  }
  return text;
}

std::string to_json(std::span<const Accuracy> all, std::span<const LeftOutRow> rows) {
  return dump({{"schema", "rigcast.calibration/1"},
               {"summary", json_list(all, accuracy_json)},
               {"rows", json_list(rows, row_json)}});
}

std::string to_text(const LeftOutReport& r) {
  std::string text = fmt::format("{} rows of {} chips; errors as `rigcast calibrate` prints them\n",
                                 r.rows.size(), chips(r.rows));
  if (!r.sweep.empty()) text += fmt::format("\nAll sources but {}\n", r.sweep);
  text += to_text(accuracy(of_sources(r.rows, r.sweep, false))) + "\n";
  if (!r.sweep.empty())
    text += fmt::format("{} alone\n", r.sweep) +
            to_text(accuracy(of_sources(r.rows, r.sweep, true))) + "\n";
  for (const LeftOutVerdict& v : r.verdicts) {
    text += fmt::format("{:<46}{:>5} chips", v.bar.name, v.chips);
    text += v.chips == 0 ? std::string(": the table has no row for this bar")
                         : fmt::format(", median {} of {}, p90 {} of {}",
                                       percent_text(v.chips_equal.median), share_text(v.bar.median),
                                       percent_text(v.chips_equal.p90), share_text(v.bar.p90));
    text += fmt::format(", limit of the median {}\n", percent_text(v.bar.limit));
  }
  text +=
      fmt::format("{} of {} usable rows are forecast\n", r.coverage.forecast, r.coverage.usable);
  text += fmt::format("{} of {} fitted forecasts are those of this program\n", r.coverage.same,
                      r.coverage.fitted);
  return text;
}

std::string to_json(const LeftOutReport& r, std::span<const Measurement> measured) {
  const auto others = of_sources(r.rows, r.sweep, false);
  const auto farthest = farthest_off(r.rows, kFarthest, kFarthestOfAChip);
  const auto stated_json = [&](const LeftOutRow& row) { return stated_row_json(row, measured); };
  return dump(
      {{"schema", "rigcast.left-out/1"},
       {"rows", r.rows.size()},
       {"chips", chips(r.rows)},
       {"sweep", r.sweep},
       {"summary", json_list(accuracy(others), accuracy_json)},
       {"summary_of_sweep", json_list(accuracy(of_sources(r.rows, r.sweep, true)), accuracy_json)},
       {"builds", eras_json(others)},
       {"families", json_list(accuracy(by_family(r.rows)), family_json)},
       {"enough_chips", kChipsForABar},
       {"bars", json_list(r.verdicts, verdict_json)},
       {"of_a_chip", kFarthestOfAChip},
       {"farthest_off", json_list(farthest, stated_json)},
       {"coverage", coverage_json(r.coverage)}});
}

}  // namespace rigcast::calibration
