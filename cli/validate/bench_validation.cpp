#include "cli/validate/bench_validation.hpp"

#include <fmt/format.h>

#include <map>
#include <memory>

#include "measurements/resolve.hpp"
#include "report/terminal/progress_line.hpp"
#include "sim/simulate.hpp"

namespace rigcast::cli {
namespace {

// Equal scenarios are forecast once.
class ForecastCache {
 public:
  const Report& of(const std::shared_ptr<const Scenario>& scenario) {
    const auto [it, fresh] = made_.try_emplace(scenario);
    if (!fresh) return it->second;
    sim::SimulateOptions how;
    how.cliffs = false;
    return it->second = sim::simulate(scenario, how);
  }

 private:
  std::map<std::shared_ptr<const Scenario>, Report> made_;
};

class Comparison {
 public:
  Comparison(const BenchComparison& how, const Catalogue& catalogue)
      : how_(how), resolver_(catalogue) {
    result_.against = how.file;
  }

  Validation compare(const std::vector<Measurement>& runs, const std::vector<std::string>& unread) {
    for (const std::string& line : unread) {
      const auto at = line.rfind(": ");
      result_.skipped.push_back({line.substr(0, at), line.substr(at + 2)});
    }
    ProgressLine progress;
    for (std::size_t i = 0; i < runs.size(); ++i) {
      progress.show(fmt::format("{} of {} runs", i, runs.size()));
      const std::string reason = add(runs[i]);
      if (!reason.empty()) result_.skipped.push_back({runs[i].id, reason});
    }
    result_.summary = summarize(result_.rows);
    return std::move(result_);
  }

 private:
  // Why there is no row for it, or nothing.
  std::string add(const Measurement& m) {
    if (m.doubtful() && !how_.doubtful) return "marked SUSPECT or CAUTION by its source";
    if (!(m.value > 0)) return "its figure is zero";
    if (m.metric == Metric::kTtft && m.prompt == 0) return "how long its prompt was is not stated";
    const auto run = resolver_.resolve(m);
    if (!run) return run.error().message;
    const Scenario& s = *run->scenario;
    if (!how_.runtime.empty() && s.runtime.id != how_.runtime)
      return fmt::format("ran on {}, not on {}", s.runtime.id, how_.runtime);
    const Report& report = forecasts_.of(run->scenario);
    if (!report.fits) return report.errors.empty() ? "does not fit" : report.errors.front();
    const auto figure = figure_of(report, m.metric);
    if (!figure) return fmt::format("the forecast has no {}", name(m.metric));
    ValidationRow row;
    row.id = m.id;
    row.rig = run->rig;
    row.chip = run->chip;
    row.what = fmt::format("{} {}", s.model.id, s.quant);
    if (s.workload.depth > 0) row.what += fmt::format(" @ d{}", s.workload.depth);
    row.regime = run->regime;
    row.deep = run->deep;
    row.quantized_kv = run->quantized_kv;
    row.ram_known = run->ram_known;
    row.metric = name(m.metric);
    row.predicted = figure->value;
    row.measured = m.value;
    row.interval = figure->interval;
    result_.rows.push_back(std::move(row));
    return {};
  }

  const BenchComparison& how_;
  Resolver resolver_;
  ForecastCache forecasts_;
  Validation result_;
};

}  // namespace

Validation compare_bench(const BenchComparison& how, const std::vector<Measurement>& runs,
                         const std::vector<std::string>& unread, const Catalogue& catalogue) {
  return Comparison(how, catalogue).compare(runs, unread);
}

}  // namespace rigcast::cli
