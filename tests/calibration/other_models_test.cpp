// Errors that remain when one model's run on a machine corrects another model: the constants of
// speed_of_runs.hpp, compared with the errors that the fit left on chips that it had not seen.
#include <cmath>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "calibration/left_out_rows.hpp"
#include "calibration/speed_of_runs.hpp"
#include "core/base/quantile.hpp"
#include "measurements/read_measurements.hpp"
#include "tests/catch.hpp"
#include "tests/paths.hpp"

using namespace rigcast;

namespace {

struct Row {
  std::string model;
  double error = 0;  // log(measured / left-out forecast)
};
using Machine = std::tuple<std::string, std::string, std::string>;  // rig, regime, source

std::map<std::string, std::string> sources() {
  const auto all = read_measurements(test::source_path("/runtimes/measurements/benchmarks.csv"));
  REQUIRE(all);
  std::map<std::string, std::string> out;
  for (const Measurement& m : *all) out[m.id] = m.source;
  return out;
}

std::map<Machine, std::vector<Row>> machines(const std::string& metric) {
  const auto table =
      calibration::read_left_out(test::source_path("/runtimes/fitted/llama.cpp.left-out.csv"));
  REQUIRE(table);
  const auto source = sources();
  std::map<Machine, std::vector<Row>> out;
  for (const calibration::LeftOutRow& row : *table)
    if (name(row.metric) == metric)
      out[{row.rig, std::string(name(row.regime)), source.at(row.id)}].push_back(
          {row.model, -row.left_out});
  return out;
}

struct Spread {
  int machines = 0;      // with several models
  double deviation = 0;  // remaining deviation, without the run's noise
};

// Corrects each row by each row of another model, as `rigcast calibrate --own` does; machines have
// equal weights.
Spread spread_of(const std::string& metric) {
  const auto all = machines(metric);
  std::vector<Weighted> sizes, after;
  for (const auto& [machine, rows] : all)
    for (const Row& row : rows) sizes.push_back({std::abs(row.error), 1.0 / double(rows.size())});
  const double prior = std::pow(weighted_quantile(sizes, 0.8) / kNormal80, 2);
  const double noise = kRunNoise * kRunNoise;
  Spread out;
  for (const auto& [machine, rows] : all) {
    std::vector<double> left;
    for (const Row& a : rows)
      for (const Row& b : rows)
        if (a.model != b.model)
          left.push_back(std::abs(b.error - prior / (prior + noise) * a.error));
    for (const double size : left) after.push_back({size, 1.0 / double(left.size())});
    out.machines += !left.empty();
  }
  const double known = 1 / (1 / prior + 1 / noise);
  out.deviation = std::sqrt(std::pow(weighted_quantile(after, 0.8) / kNormal80, 2) - known);
  return out;
}

// Relative standard error of a deviation that is the end of the 80 % interval of n normal errors:
// sqrt(p (1 - p) / n) over the density of their sizes there, 2 phi(1.2816) = 0.351.
double share_of_sampling(int n) { return std::sqrt(0.8 * 0.2 / n) / (0.351 * kNormal80); }

void check(const std::string& metric, double constant) {
  const Spread found = spread_of(metric);
  INFO(metric << ": " << found.machines << " machines, " << found.deviation);
  CHECK(found.machines >= 20);
  CHECK(found.deviation == Approx(constant).epsilon(share_of_sampling(found.machines)));
}

}  // namespace

TEST_CASE("What a correction cannot carry over to other models is what left-out errors tell",
          "[calibration]") {
  check("tg_tps", kOtherModelsDecode);
  check("pp_tps", kOtherModelsPrefill);
}
