#include "calibration/runs/run_fit_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>

#include "core/base/quantile.hpp"

namespace rigcast::calibration {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kWorst = 12;

struct MetricErrors {
  std::string metric;
  std::vector<double> sizes;  // absolute errors, relative to the measured values
};

std::vector<MetricErrors> by_metric(const RunsCalibration& done) {
  std::vector<MetricErrors> out;
  for (std::size_t i = 0; i < done.fit.errors.size(); ++i) {
    const std::string& metric = done.kept.rows()[i].metric;
    auto found = std::ranges::find(out, metric, &MetricErrors::metric);
    if (found == out.end()) found = out.insert(out.end(), {metric, {}});
    found->sizes.push_back(std::abs(std::expm1(done.fit.errors[i])));
  }
  return out;
}

double before(const RunsCalibration& done, const Parameter& p) {
  RuntimeProfile profile = done.kept.profile();
  return *p.in(profile);
}

std::vector<std::size_t> worst_rows(const RunsCalibration& done) {
  std::vector<std::size_t> rows(done.fit.errors.size());
  std::iota(rows.begin(), rows.end(), std::size_t{0});
  std::ranges::stable_sort(rows, std::greater(),
                           [&](std::size_t i) { return std::abs(done.fit.errors[i]); });
  rows.resize(std::min(rows.size(), kWorst));
  return rows;
}

}  // namespace

std::string to_json(const RunsCalibration& done) {
  Json json{{"schema", "rigcast.run_calibration/1"},
            {"runs", done.kept.run_count()},
            {"rows", done.kept.rows().size()},
            {"cost_before", done.fit.cost_before},
            {"cost", done.fit.cost}};
  json["figures"] = Json::array();
  for (std::size_t i = 0; i < done.fit.parameters.size(); ++i) {
    const Parameter& p = done.fit.parameters[i];
    json["figures"].push_back(
        {{"path", p.path}, {"before", before(done, p)}, {"fitted", done.fit.values[i]}});
  }
  json["untold"] = done.fit.untold;
  json["errors"] = Json::array();
  for (std::size_t i = 0; i < done.fit.errors.size(); ++i) {
    const KeptRow& row = done.kept.rows()[i];
    json["errors"].push_back(
        {{"run", row.run}, {"metric", row.metric}, {"error", std::expm1(done.fit.errors[i])}});
  }
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string to_text(const RunsCalibration& done) {
  const RunFit& fit = done.fit;
  std::string text =
      fmt::format("{} rows of {} runs; what the fit makes least: {:.5g}, before {:.5g}\n\n",
                  done.kept.rows().size(), done.kept.run_count(), fit.cost, fit.cost_before);
  for (std::size_t i = 0; i < fit.parameters.size(); ++i) {
    const Parameter& p = fit.parameters[i];
    text += fmt::format("{:<32}{:>14} -> {:>12}\n", p.path, toml_value(p, before(done, p)),
                        toml_value(p, fit.values[i]));
  }
  for (const std::string& path : fit.untold)
    text += fmt::format("{:<32}  no run tells it: stays as it is\n", path);
  text += '\n';
  for (const MetricErrors& m : by_metric(done))
    text += fmt::format("{:<32}median {:5.1f} %  worst {:5.1f} %\n", m.metric,
                        100 * median(m.sizes), 100 * std::ranges::max(m.sizes));
  text += "\nfarthest off\n";
  for (const std::size_t i : worst_rows(done))
    text += fmt::format("  {:<34} {:<30} {:+6.1f} %\n", done.kept.rows()[i].run,
                        done.kept.rows()[i].metric, 100 * std::expm1(fit.errors[i]));
  return text;
}

}  // namespace rigcast::calibration
