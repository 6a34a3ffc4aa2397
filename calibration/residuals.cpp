#include "calibration/residuals.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "core/base/quantile.hpp"

namespace rigcast::calibration {
namespace {

constexpr int kEnoughChips = 4;
constexpr double kTail = 0.10;  // probability on either side of an 80 % interval
// chips: an unseen chip may be outside of the range of those seen, on either side.
constexpr double kBeyond = 0.5;

struct Group {
  Metric metric;
  std::string regime;
  std::vector<std::size_t> rows;
};

std::vector<Group> groups(const std::vector<Sample>& samples) {
  std::vector<Group> all;
  for (const Metric metric : {Metric::kTg, Metric::kPp}) {
    const auto add = [&](std::string name, auto belongs) {
      Group g{metric, std::move(name), {}};
      for (std::size_t i = 0; i < samples.size(); ++i)
        if (samples[i].run().measured.metric == metric && belongs(samples[i].run()))
          g.rows.push_back(i);
      if (!g.rows.empty()) all.push_back(std::move(g));
    };
    for (int r = 0; r < kRegimeCount; ++r)
      add(std::string(name(Regime(r))),
          [&](const ResolvedRun& run) { return run.regime == Regime(r); });
    add("deep context", [](const ResolvedRun& run) { return run.deep; });
    add("quantized KV", [](const ResolvedRun& run) { return run.quantized_kv; });
    add("all", [](const ResolvedRun&) { return true; });
  }
  return all;
}

std::map<std::string, int> rows_by_chip(const std::vector<Sample>& samples, const Group& g) {
  std::map<std::string, int> rows;
  for (const std::size_t i : g.rows) ++rows[samples[i].run().chip];
  return rows;
}

// The errors of a group, without those of one chip; logarithms of measured over forecast.
std::vector<Weighted> ratios(const std::vector<Sample>& samples, const Group& g,
                             const std::vector<double>& errors, const std::string& without) {
  const auto rows = rows_by_chip(samples, g);
  std::vector<Weighted> out;
  for (const std::size_t i : g.rows) {
    const std::string& chip = samples[i].run().chip;
    if (chip != without) out.push_back({-errors[i], 1.0 / rows.at(chip)});
  }
  return out;
}

double coverage(const std::vector<Sample>& samples, const Group& g,
                const std::vector<double>& errors) {
  const auto rows = rows_by_chip(samples, g);
  if (rows.size() < 2) return 0.0;
  double inside = 0;
  for (const auto& [chip, count] : rows) {
    const auto others = ratios(samples, g, errors, chip);
    const double low = weighted_quantile(others, kTail, kBeyond);
    const double high = weighted_quantile(others, 1.0 - kTail, kBeyond);
    for (const std::size_t i : g.rows)
      if (samples[i].run().chip == chip && -errors[i] >= low && -errors[i] <= high)
        inside += 1.0 / count;
  }
  return inside / double(rows.size());
}

}  // namespace

std::vector<Accuracy> accuracy(const std::vector<Sample>& samples, const LeftOut& errors) {
  std::vector<Accuracy> out;
  for (const Group& g : groups(samples)) {
    const auto chips = rows_by_chip(samples, g);
    std::vector<Weighted> fitted, left_out;
    double bias = 0;
    for (const std::size_t i : g.rows) {
      const double weight = 1.0 / chips.at(samples[i].run().chip);
      fitted.push_back({std::abs(std::exp(errors.fitted[i]) - 1.0), weight});
      left_out.push_back({std::abs(std::exp(errors.left_out[i]) - 1.0), weight});
      bias += weight * (std::exp(errors.left_out[i]) - 1.0);
    }
    Accuracy a;
    a.metric = name(g.metric);
    a.regime = g.regime;
    a.rows = int(g.rows.size());
    a.chips = int(chips.size());
    a.fitted_median = weighted_quantile(fitted, 0.5);
    a.fitted_p90 = weighted_quantile(fitted, 0.9);
    a.left_out_median = weighted_quantile(left_out, 0.5);
    a.left_out_p90 = weighted_quantile(left_out, 0.9);
    a.bias = bias / double(chips.size());
    a.covered = coverage(samples, g, errors.left_out);
    out.push_back(a);
  }
  return out;
}

std::vector<RuntimeProfile::Spread> spreads(const std::vector<Sample>& samples,
                                            const LeftOut& errors) {
  std::vector<RuntimeProfile::Spread> out;
  for (const Group& g : groups(samples)) {
    const auto chips = rows_by_chip(samples, g);
    const bool crossing = g.regime == "deep context" || g.regime == "quantized KV";
    if (crossing || (int(chips.size()) < kEnoughChips && g.regime != "all")) continue;
    const auto all = ratios(samples, g, errors.left_out, "");
    out.push_back({std::string(name(g.metric)), g.regime,
                   std::exp(weighted_quantile(all, kTail, kBeyond)),
                   std::exp(weighted_quantile(all, 1.0 - kTail, kBeyond)), int(g.rows.size()),
                   int(chips.size())});
  }
  return out;
}

}  // namespace rigcast::calibration
