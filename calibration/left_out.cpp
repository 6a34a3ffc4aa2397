#include "calibration/left_out.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <map>
#include <mutex>
#include <thread>

namespace rigcast::calibration {
namespace {

// Few iterations are enough: the optimum without one chip or family is near the fit on everything.
constexpr int kFewIterations = 50;

// A set of runs that one fit excludes, and those of them that it forecasts.
struct Fold {
  std::function<bool(const ResolvedRun&)> leaves_out, forecasts;
  std::vector<double> LeftOut::*errors = nullptr;
};

bool share_a_family(const ResolvedRun& a, const ResolvedRun& b) {
  return std::ranges::any_of(a.families, [&](const std::string& family) {
    return std::ranges::find(b.families, family) != b.families.end();
  });
}

// A fold for each chip, then one for each set of families.
std::vector<Fold> folds_of(const std::vector<Sample>& samples) {
  std::map<std::string, const ResolvedRun*> by_chip;
  std::map<std::vector<std::string>, const ResolvedRun*> by_families;
  for (const Sample& s : samples) {
    if (s.run().dense) continue;
    by_chip.emplace(s.run().chip, &s.run());
    by_families.emplace(s.run().families, &s.run());
  }
  std::vector<Fold> folds;
  for (const auto& [chip, first] : by_chip) {
    const auto same = [first](const ResolvedRun& run) { return run.chip == first->chip; };
    folds.push_back({same, same, &LeftOut::left_out});
  }
  for (const auto& [families, first] : by_families)
    folds.push_back({[first](const ResolvedRun& run) { return share_a_family(run, *first); },
                     [first](const ResolvedRun& run) { return run.families == first->families; },
                     &LeftOut::family_left_out});
  return folds;
}

// The start for a fit without some runs: the fit on everything, with parameters that only these
// determine reset to their likely values.
std::vector<double> without(const Fold& fold, const std::vector<Parameter>& parameters,
                            const std::vector<Sample>& samples, std::vector<double> values) {
  std::vector<bool> told(parameters.size(), false);
  for (const Sample& s : samples)
    if (!fold.leaves_out(s.run()))
      for (const int i : s.depends_on()) told[std::size_t(i)] = true;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const Parameter& p = parameters[i];  // a parent comes before its children
    if (told[i]) continue;
    const double at =
        p.parent < 0 ? std::log(p.prior) : values[std::size_t(p.parent)] + std::log(p.ratio);
    values[i] = std::clamp(at, std::log(p.least), std::log(p.most));
  }
  return values;
}

void bind_all(std::vector<Sample>& samples, const std::vector<Parameter>& parameters,
              const std::vector<double>& values) {
  for (Sample& s : samples) s.bind(parameters, values);
}

// A sample is bound to the parameters that move its forecast at given values, which are others
// where another of two times is the longer. So samples are bound again, and all are fitted again,
// until no forecast changes by that.
std::vector<double> fit_until_bound(const std::vector<Parameter>& parameters,
                                    std::vector<Sample>& samples) {
  constexpr int kRounds = 6;
  constexpr double kEqual = 1e-3;
  std::vector<double> values = fit(parameters, samples, likely(parameters));
  for (int round = 1; round < kRounds && !values.empty(); ++round) {
    std::vector<double> before;
    for (const Sample& s : samples) before.push_back(s.error_among(values));
    bind_all(samples, parameters, values);
    bool moved = false;
    for (std::size_t i = 0; i < samples.size(); ++i)
      moved = moved || !(std::abs(samples[i].error_among(values) - before[i]) < kEqual);
    if (!moved && round > 1) break;
    values = fit(parameters, samples, values);
  }
  if (!values.empty()) bind_all(samples, parameters, values);
  return values;
}

}  // namespace

LeftOut leave_chips_out(const std::vector<Parameter>& parameters,
                        const std::function<std::vector<Sample>()>& samples, int threads,
                        const std::function<void(int done, int all)>& progress) {
  LeftOut out;
  std::vector<Sample> all = samples();
  out.values = fit_until_bound(parameters, all);
  if (out.values.empty()) return out;
  for (const Sample& s : all) out.fitted.push_back(s.error_among(out.values));
  out.left_out.resize(all.size());
  out.family_left_out.resize(all.size());
  const std::vector<Fold> folds = folds_of(all);

  std::atomic<std::size_t> next = 0;
  std::mutex reporting;
  int done = 0;
  bool all_solved = true;
  const auto work = [&] {
    std::vector<Sample> mine = samples();
    bind_all(mine, parameters, out.values);
    for (std::size_t f = next++; f < folds.size(); f = next++) {
      const Fold& fold = folds[f];
      const auto start = without(fold, parameters, mine, out.values);
      const auto values = fit(parameters, mine, start, {kFewIterations, fold.leaves_out});
      for (std::size_t i = 0; i < mine.size() && !values.empty(); ++i) {
        if (!fold.forecasts(mine[i].run())) continue;
        mine[i].bind(parameters, values);  // without it, other parameters may count
        (out.*fold.errors)[i] = mine[i].error_among(values);
        mine[i].bind(parameters, out.values);
      }
      const std::lock_guard lock(reporting);
      all_solved = all_solved && !values.empty();
      progress(++done, int(folds.size()));
    }
  };
  {
    std::vector<std::jthread> workers;  // joined at the end of this block
    for (int t = 1; t < std::min(threads, int(folds.size())); ++t) workers.emplace_back(work);
    work();
  }
  if (!all_solved) out.values.clear();
  return out;
}

}  // namespace rigcast::calibration
