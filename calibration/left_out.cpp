#include "calibration/left_out.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <mutex>
#include <set>
#include <thread>

namespace rigcast::calibration {
namespace {

// Few iterations are enough: the optimum without one chip is near the fit on everything.
constexpr int kFewIterations = 50;

// The start for a fit without one chip: the fit on everything, with parameters that only this chip
// determines reset to their likely values.
std::vector<double> without(const std::string& chip, const std::vector<Parameter>& parameters,
                            const std::vector<Sample>& samples, std::vector<double> values) {
  std::vector<bool> told(parameters.size(), false);
  for (const Sample& s : samples)
    if (s.run().chip != chip)
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

}  // namespace

LeftOut leave_chips_out(const std::vector<Parameter>& parameters,
                        const std::function<std::vector<Sample>()>& samples, int threads,
                        const std::function<void(int done, int all)>& progress) {
  LeftOut out;
  std::vector<Sample> all = samples();
  out.values = fit(parameters, all, likely(parameters));
  if (out.values.empty()) return out;
  // Samples are bound again, because at the fitted values a run may depend on other parameters than
  // at the start.
  bind_all(all, parameters, out.values);
  out.values = fit(parameters, all, out.values);
  if (out.values.empty()) return out;
  std::set<std::string> names;
  for (const Sample& s : all) {
    out.fitted.push_back(s.error_among(out.values));
    names.insert(s.run().chip);
  }
  out.left_out.resize(all.size());
  const std::vector<std::string> chips(names.begin(), names.end());

  std::atomic<std::size_t> next = 0;
  std::mutex reporting;
  int done = 0;
  bool all_solved = true;
  const auto work = [&] {
    std::vector<Sample> mine = samples();
    bind_all(mine, parameters, out.values);
    for (std::size_t c = next++; c < chips.size(); c = next++) {
      const auto start = without(chips[c], parameters, mine, out.values);
      const auto values = fit(parameters, mine, start, {kFewIterations, chips[c]});
      for (std::size_t i = 0; i < mine.size() && !values.empty(); ++i)
        if (mine[i].run().chip == chips[c]) out.left_out[i] = mine[i].error_among(values);
      const std::lock_guard lock(reporting);
      all_solved = all_solved && !values.empty();
      progress(++done, int(chips.size()));
    }
  };
  {
    std::vector<std::jthread> workers;  // joined at the end of this block
    for (int t = 1; t < std::min(threads, int(chips.size())); ++t) workers.emplace_back(work);
    work();
  }
  if (!all_solved) out.values.clear();
  return out;
}

}  // namespace rigcast::calibration
