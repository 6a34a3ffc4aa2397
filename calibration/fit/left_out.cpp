#include "calibration/fit/left_out.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <map>
#include <mutex>
#include <set>
#include <utility>

#include "calibration/fit/in_parallel.hpp"

namespace rigcast::calibration {
namespace {

// Few iterations are enough: the optimum without some chips or a family is near the fit on
// everything.
constexpr int kFewIterations = 25;
constexpr double kFoldTolerance = 1e-6;
// Fits that leave chips out, and families: a fit on eleven of twelve tells what one on all of them
// does elsewhere.
constexpr std::size_t kFolds = 12;

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

// Chips that one fit leaves out together: of different families as far as possible, so that each of
// them still has its relatives in the fit.
struct ChipGroup {
  std::set<std::string> chips;
  std::vector<const ResolvedRun*> firsts;

  int relatives(const ResolvedRun& run) const {
    return int(std::ranges::count_if(
        firsts, [&](const ResolvedRun* other) { return share_a_family(run, *other); }));
  }
};

std::vector<ChipGroup> chip_groups(const std::map<std::string, const ResolvedRun*>& by_chip) {
  std::vector<ChipGroup> groups(std::min(kFolds, by_chip.size()));
  for (const auto& [chip, first] : by_chip) {
    ChipGroup& group = *std::ranges::min_element(groups, {}, [&, run = first](const ChipGroup& g) {
      return std::pair(g.relatives(*run), g.chips.size());
    });
    group.chips.insert(chip);
    group.firsts.push_back(first);
  }
  return groups;
}

// Sets of families that one fit leaves out together: those that follow each other by name, as
// generations do, are in different groups.
using FamilyGroup = std::vector<const ResolvedRun*>;
std::vector<FamilyGroup> family_groups(
    const std::map<std::vector<std::string>, const ResolvedRun*>& by_families) {
  std::vector<FamilyGroup> groups(std::min(kFolds, by_families.size()));
  std::size_t next = 0;
  for (const auto& [families, first] : by_families) groups[next++ % groups.size()].push_back(first);
  return groups;
}

// A fold for each group of chips, then one for each group of families.
std::vector<Fold> folds_of(const std::vector<Sample>& samples) {
  std::map<std::string, const ResolvedRun*> by_chip;
  std::map<std::vector<std::string>, const ResolvedRun*> by_families;
  for (const Sample& s : samples) {
    if (s.run().dense) continue;
    by_chip.emplace(s.run().chip, &s.run());
    by_families.emplace(s.run().families, &s.run());
  }
  std::vector<Fold> folds;
  for (const ChipGroup& group : chip_groups(by_chip)) {
    const auto among = [chips = group.chips](const ResolvedRun& run) {
      return chips.contains(run.chip);
    };
    folds.push_back({among, among, &LeftOut::left_out});
  }
  for (const FamilyGroup& group : family_groups(by_families)) {
    const auto any_of = [group](const auto& holds) {
      return [group, holds](const ResolvedRun& run) {
        return std::ranges::any_of(group, [&](const ResolvedRun* f) { return holds(run, *f); });
      };
    };
    folds.push_back({any_of(share_a_family),
                     any_of([](const ResolvedRun& run, const ResolvedRun& first) {
                       return run.families == first.families;
                     }),
                     &LeftOut::family_left_out});
  }
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
              const std::vector<double>& values, int threads) {
  std::atomic<std::size_t> next = 0;
  in_parallel(threads, [&] {
    for (std::size_t i = next++; i < samples.size(); i = next++)
      samples[i].bind(parameters, values);
  });
}

// A sample is bound to the parameters that move its forecast at given values, which are others
// where another of two times is the longer. So samples are bound again, and all are fitted again,
// until no forecast changes by that.
std::vector<double> fit_until_bound(const std::vector<Parameter>& parameters,
                                    std::vector<Sample>& samples, int threads) {
  constexpr int kRounds = 6;
  constexpr double kEqual = 1e-3;
  FitOptions options;
  options.threads = threads;
  bind_all(samples, parameters, likely(parameters), threads);
  std::vector<double> values = fit(parameters, samples, likely(parameters), options);
  for (int round = 1; round < kRounds && !values.empty(); ++round) {
    std::vector<double> before;
    for (const Sample& s : samples) before.push_back(s.error_among(values));
    bind_all(samples, parameters, values, threads);
    bool moved = false;
    for (std::size_t i = 0; i < samples.size(); ++i)
      moved = moved || !(std::abs(samples[i].error_among(values) - before[i]) < kEqual);
    if (!moved && round > 1) break;
    values = fit(parameters, samples, values, options);
  }
  if (!values.empty()) bind_all(samples, parameters, values, threads);
  return values;
}

}  // namespace

LeftOut leave_chips_out(const std::vector<Parameter>& parameters,
                        const std::function<std::vector<Sample>()>& samples, int threads,
                        const std::function<void(int done, int all)>& progress) {
  LeftOut out;
  std::vector<Sample> all = samples();
  out.values = fit_until_bound(parameters, all, threads);
  if (out.values.empty()) return out;
  for (const Sample& s : all) out.fitted.push_back(s.error_among(out.values));
  out.left_out.resize(all.size());
  out.family_left_out.resize(all.size());
  const std::vector<Fold> folds = folds_of(all);

  std::atomic<std::size_t> next = 0;
  std::mutex reporting;
  int done = 0;
  bool all_solved = true;
  in_parallel(std::min(threads, int(folds.size())), [&] {
    std::vector<Sample> mine = samples();
    for (std::size_t i = 0; i < mine.size(); ++i) mine[i].bind_like(all[i], parameters, out.values);
    for (std::size_t f = next++; f < folds.size(); f = next++) {
      const Fold& fold = folds[f];
      const auto start = without(fold, parameters, mine, out.values);
      FitOptions options;
      options.iterations = kFewIterations;
      options.tolerance = kFoldTolerance;
      options.leaves_out = fold.leaves_out;
      const auto values = fit(parameters, mine, start, options);
      for (std::size_t i = 0; i < mine.size() && !values.empty(); ++i) {
        if (!fold.forecasts(mine[i].run())) continue;
        mine[i].bind(parameters, values);  // without it, other parameters may count
        (out.*fold.errors)[i] = mine[i].error_among(values);
        mine[i].bind_like(all[i], parameters, out.values);
      }
      const std::lock_guard lock(reporting);
      all_solved = all_solved && !values.empty();
      progress(++done, int(folds.size()));
    }
  });
  if (!all_solved) out.values.clear();
  return out;
}

}  // namespace rigcast::calibration
