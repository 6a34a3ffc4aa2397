#include "cli/shared/serving_validation.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "measurements/serving/resolve_serving.hpp"
#include "report/report_words.hpp"
#include "report/terminal/progress_line.hpp"
#include "sim/serving/simulate_load.hpp"

namespace rigcast::cli {
namespace {

using Figure = std::function<std::optional<double>(const ServingFigures&)>;

class Rows {
 public:
  Rows(const ResolvedServing& run, const ServingReport& forecast, std::vector<ValidationRow>& out)
      : run_(run), forecast_(forecast), out_(out) {}

  void add(const char* metric, std::optional<double> measured, const Figure& figure) {
    const auto predicted = figure(forecast_.figures);
    if (!measured || *measured <= 0 || !predicted || *predicted <= 0) return;
    const Scenario& s = *run_.scenario;
    ValidationRow row;
    row.id = run_.measured.id;
    row.rig = rig_name(s.rig);
    row.what = fmt::format("{} {}, {}", s.model.id, s.quant, s.runtime.id);
    row.chip = run_.chip;
    row.metric = metric;
    row.predicted = *predicted;
    row.measured = *measured;
    row.gpu = !s.rig.gpus.empty();
    if (forecast_.fastest && forecast_.slowest) {
      const auto a = figure(*forecast_.fastest), b = figure(*forecast_.slowest);
      if (a && b) row.interval = Interval{std::min(*a, *b), std::max(*a, *b)};
    }
    out_.push_back(std::move(row));
  }

 private:
  const ResolvedServing& run_;
  const ServingReport& forecast_;
  std::vector<ValidationRow>& out_;
};

std::optional<double> seconds(std::optional<double> milliseconds) {
  return milliseconds ? std::optional(*milliseconds / 1000) : std::nullopt;
}

void add_rows(const ResolvedServing& run, const ServingReport& forecast,
              std::vector<ValidationRow>& out) {
  const ServingMeasurement& m = run.measured;
  Rows rows(run, forecast, out);
  // A server that keeps up with what arrives has the throughput of its users.
  if (m.arrival != "poisson")
    rows.add("output_tps", m.output_tokens_per_s,
             [](const ServingFigures& f) { return std::optional(f.output_tokens_per_s); });
  const ServingState state = forecast.figures.state;
  const bool waits = state == ServingState::kBacklogged || state == ServingState::kOverloaded;
  if (!waits) {
    rows.add("ttft_p50_s", seconds(m.ttft.p50),
             [](const ServingFigures& f) { return std::optional(f.ttft.p50); });
    rows.add("ttft_p99_s", seconds(m.ttft.p99), [](const ServingFigures& f) { return f.ttft.p99; });
  }
  rows.add("tpot_p50_s", seconds(m.tpot.p50),
           [](const ServingFigures& f) { return std::optional(f.tpot.p50); });
  rows.add("tpot_p99_s", seconds(m.tpot.p99), [](const ServingFigures& f) { return f.tpot.p99; });
  if (m.cache_tokens)
    rows.add("kv_tokens", double(*m.cache_tokens),
             [](const ServingFigures& f) { return std::optional(double(f.cache.capacity)); });
}

std::optional<Error> compare(const ServingMeasurement& m, NameResolver& resolver,
                             std::vector<ValidationRow>& out) {
  if (m.is_doubtful()) return bad_input(fmt::format("marked {}", m.flags));
  const auto run = resolve_serving(m, resolver);
  if (!run) return run.error();
  auto simulation = LoadSimulation::make(*run->scenario);
  if (!simulation) return simulation.error();
  const auto forecast = simulation->report(*run->scenario->load);
  if (!forecast) return forecast.error();
  add_rows(*run, *forecast, out);
  return std::nullopt;
}

}  // namespace

Result<Validation> compare_serving_table(const std::string& text, const std::string& file,
                                         const Catalogue& catalogue) {
  const auto runs = parse_serving_measurements(text, file);
  if (!runs) return runs.error();
  NameResolver resolver(catalogue);
  Validation validation;
  validation.against = file;
  ProgressLine progress;
  for (const ServingMeasurement& m : *runs) {
    progress.show(fmt::format("{} of {} runs", &m - runs->data(), runs->size()));
    if (const auto error = compare(m, resolver, validation.rows))
      validation.skipped.push_back({m.id, error->message});
  }
  validation.summary = summarize(validation.rows);
  return validation;
}

}  // namespace rigcast::cli
