// Errors of llmfit's and canirun.ai's forecasts beside those of a fit on chips that it had not
// seen, as JSON for scripts/accuracy.py.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "bench/formulas/canirun.hpp"
#include "bench/formulas/llmfit.hpp"
#include "calibration/accuracy.hpp"
#include "core/catalogue/catalogue.hpp"
#include "measurements/read_measurements.hpp"
#include "measurements/resolve.hpp"
#include "report/json_values.hpp"

using namespace rigcast;
using calibration::Accuracy;
using calibration::LeftOutRow;

namespace {

using Json = nlohmann::ordered_json;

struct Tool {
  std::string name;
  std::optional<double> (*decode)(const Scenario&);  // tokens/s
};
const std::vector<Tool> kTools = {{"llmfit", formulas::llmfit_decode},
                                  {"canirun.ai", formulas::canirun_decode}};

// Decode rows that are not doubtful, and each tool's tokens/s for those that it has a number for.
struct Forecasts {
  int usable = 0;
  std::vector<std::map<std::string, double>> by_tool{kTools.size()};  // of a row's id
};

Forecasts forecast(const std::vector<Measurement>& runs) {
  Resolver resolver{Catalogue(RIGCAST_SOURCE_DIR)};
  Forecasts out;
  for (const Measurement& m : runs) {
    if (m.metric != Metric::kTg || m.doubtful()) continue;
    ++out.usable;
    const auto run = resolver.resolve(m);
    if (!run) continue;
    for (std::size_t t = 0; t < kTools.size(); ++t)
      if (const auto speed = kTools[t].decode(*run->scenario)) out.by_tool[t][m.id] = *speed;
  }
  return out;
}

std::vector<LeftOutRow> rows_of_all(const std::vector<LeftOutRow>& rows, const Forecasts& f) {
  std::vector<LeftOutRow> common;
  for (const LeftOutRow& row : rows)
    if (row.metric == SpeedMetric::kDecode &&
        std::ranges::all_of(f.by_tool, [&](const auto& of) { return of.contains(row.id); }))
      common.push_back(row);
  return common;
}

Json errors_json(const Accuracy& a) {
  return {{"median_abs_error", a.left_out_median}, {"p90_abs_error", a.left_out_p90}};
}

// A regime a line, each tool's errors in the place of the left-out ones.
Json summary(const std::vector<LeftOutRow>& common, const Forecasts& f) {
  Json lines = Json::array();
  for (const Accuracy& a : calibration::accuracy(common))
    lines.push_back({{"regime", name(a.group)},
                     {"chips", a.chips},
                     {"rows", a.rows},
                     {"errors", {{"rigcast", errors_json(a)}}}});
  for (std::size_t t = 0; t < kTools.size(); ++t) {
    std::vector<LeftOutRow> rows = common;
    for (LeftOutRow& row : rows) row.left_out = std::log(f.by_tool[t].at(row.id) / row.measured);
    const auto all = calibration::accuracy(rows);
    for (std::size_t i = 0; i < all.size(); ++i)
      lines[i]["errors"][kTools[t].name] = errors_json(all[i]);
  }
  return lines;
}

Json count_json(const std::string& tool, std::size_t rows, int usable) {
  return {{"tool", tool}, {"rows", rows}, {"share", json_number(double(rows) / usable)}};
}

Json to_json(const std::vector<LeftOutRow>& rows, const Forecasts& f) {
  Json counts = Json::array();
  counts.push_back(count_json(
      "rigcast", std::size_t(std::ranges::count(rows, SpeedMetric::kDecode, &LeftOutRow::metric)),
      f.usable));
  for (std::size_t t = 0; t < kTools.size(); ++t)
    counts.push_back(count_json(kTools[t].name, f.by_tool[t].size(), f.usable));
  return {{"usable", f.usable}, {"counts", counts}, {"summary", summary(rows_of_all(rows, f), f)}};
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    fmt::print(stderr, "usage: bench_formulas MEASUREMENTS LEFT_OUT\n");
    return 2;
  }
  const auto runs = read_measurements(argv[1]);
  const auto rows = calibration::read_left_out(argv[2]);
  if (!runs || !rows) {
    fmt::print(stderr, "bench_formulas: {}\n", (runs ? rows.error() : runs.error()).text());
    return 2;
  }
  fmt::print("{}\n", to_json(*rows, forecast(*runs)).dump(2));
  return 0;
}
