#include "cli/validate/serving_validation.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "core/scenario/regime.hpp"
#include "core/text/unit_text.hpp"
#include "measurements/serving/resolve_serving.hpp"
#include "measurements/serving/serving_results.hpp"
#include "perfmodel/resolve_placement.hpp"
#include "report/report_words.hpp"
#include "report/terminal/progress_line.hpp"
#include "sim/serving/lockstep.hpp"
#include "sim/serving/simulate_load.hpp"

namespace rigcast::cli {
namespace {

class Rows {
 public:
  Rows(const ResolvedServing& run, std::string load, std::vector<ValidationRow>& out)
      : run_(run),
        load_(std::move(load)),
        regime_(regime_of(*run.scenario, resolve_placement(*run.scenario))),
        out_(out) {}

  // `ends`: the figure where the machine is as fast, and as slow, as the forecast allows.
  void add(std::string metric, std::optional<double> measured, std::optional<double> predicted,
           std::optional<std::pair<double, double>> ends) {
    if (!measured || *measured <= 0 || !predicted || *predicted <= 0) return;
    const Scenario& s = *run_.scenario;
    ValidationRow row;
    row.id = run_.measured.id;
    row.rig = rig_name(s.rig);
    row.what = fmt::format("{} {}, {}", s.model.id, s.quant, s.runtime.id);
    row.load = load_;
    row.regime = regime_;
    row.chip = run_.chip;
    row.metric = std::move(metric);
    row.predicted = *predicted;
    row.measured = *measured;
    row.gpu = !s.rig.gpus.empty();
    if (ends)
      row.interval =
          Interval{std::min(ends->first, ends->second), std::max(ends->first, ends->second)};
    out_.push_back(std::move(row));
  }

 private:
  const ResolvedServing& run_;
  std::string load_;
  Regime regime_;
  std::vector<ValidationRow>& out_;
};

// The rows of a server's figures.
class FigureRows {
 public:
  FigureRows(const ServingReport& forecast, Rows& rows) : forecast_(forecast), rows_(rows) {}

  template <class Figure>
  void add(std::string metric, std::optional<double> measured, const Figure& figure) {
    std::optional<std::pair<double, double>> ends;
    if (forecast_.fastest && forecast_.slowest) {
      const std::optional<double> a = figure(*forecast_.fastest), b = figure(*forecast_.slowest);
      if (a && b) ends = std::pair(*a, *b);
    }
    rows_.add(std::move(metric), measured, figure(forecast_.figures), ends);
  }

  void add(const std::string& metric, const MeasuredPercentiles& ms,
           Percentiles ServingFigures::*of) {
    const auto at = [&](const char* which, std::optional<double> measured, auto figure) {
      if (measured) *measured /= 1000;
      add(metric + which, measured,
          [&](const ServingFigures& f) -> std::optional<double> { return figure(f.*of); });
    };
    at("_mean_s", ms.mean, [](const Percentiles& p) { return p.mean; });
    at("_p50_s", ms.p50, [](const Percentiles& p) { return p.p50; });
    at("_p90_s", ms.p90, [](const Percentiles& p) { return p.p90; });
    at("_p95_s", ms.p95, [](const Percentiles& p) { return p.p95; });
    at("_p99_s", ms.p99, [](const Percentiles& p) { return p.p99; });
  }

 private:
  const ServingReport& forecast_;
  Rows& rows_;
};

// "16 users: 1,024 in, 128 out", "poisson 4/s: 213 in, 224 out", "180 requests at once: ...".
std::string load_text(const Load& load) {
  const auto mean = [](double tokens) { return text_count(std::llround(tokens)); };
  std::string who = fmt::format("{} {:g}/s", name(load.arrival), load.rate);
  if (load.arrival == ArrivalProcess::kTrace) return text(load);
  if (load.arrival == ArrivalProcess::kBurst)
    who = fmt::format("{} requests at once", text_count(load.requests));
  if (!load.is_open()) who = fmt::format("{} {}", load.users, load.users == 1 ? "user" : "users");
  return fmt::format("{}: {} in, {} out", who, mean(mean_prompt(load)), mean(mean_output(load)));
}

void add_load_rows(const ResolvedServing& run, const ServingReport& forecast, Validation& out) {
  const ServingMeasurement& m = run.measured;
  Rows all(run, load_text(*run.scenario->load), out.rows);
  FigureRows rows(forecast, all);
  // A server that keeps up with what arrives has the throughput of its users.
  const bool keeps_busy = m.arrival == "closed" || m.arrival == "all at once";
  if (keeps_busy)
    rows.add("output_tps", m.output_tokens_per_s,
             [](const ServingFigures& f) { return std::optional(f.output_tokens_per_s); });
  const ServingState state = forecast.figures.state;
  const bool waits = state == ServingState::kBacklogged || state == ServingState::kOverloaded;
  if (waits)
    out.notes.push_back({m.id, fmt::format("the forecast is {}: how long requests wait has no "
                                           "figure",
                                           name(forecast.figures.state))});
  if (!waits) rows.add("ttft", m.ttft, &ServingFigures::ttft);
  rows.add("tpot", m.tpot, &ServingFigures::tpot);
  rows.add("itl", m.itl, &ServingFigures::itl);
  if (!waits) rows.add("e2e", m.e2e, &ServingFigures::e2e);
  if (m.cache_tokens)
    rows.add("kv_tokens", double(*m.cache_tokens), [](const ServingFigures& f) {
      return std::optional(double(f.cache.capacity_without_windows));
    });
}

std::optional<Error> compare_load(const ResolvedServing& run, Validation& out) {
  auto simulation = LoadSimulation::make(*run.scenario);
  if (!simulation) return simulation.error();
  const auto forecast = simulation->report(*run.scenario->load);
  if (!forecast) return forecast.error();
  add_load_rows(run, *forecast, out);
  return std::nullopt;
}

std::optional<Error> compare_lockstep(const ResolvedServing& run, Validation& out) {
  const ServingMeasurement& m = run.measured;
  const LockstepLoad load{*m.concurrency, TokenCount(m.prompt_tokens), TokenCount(m.output_tokens),
                          m.shared_prompt, m.separate_answers};
  const auto forecast = forecast_lockstep(*run.scenario, load);
  if (!forecast) return forecast.error();
  Rows rows(run,
            fmt::format("{} {}: {} in, {} out", load.sequences,
                        load.sequences == 1 ? "sequence" : "sequences", text_count(load.prompt),
                        text_count(load.answer)),
            out.rows);
  const double prompts = double(load.prompt) * (load.shared_prompt ? 1 : load.sequences);
  const double answers = double(load.answer) * load.sequences;
  rows.add("pp_tps", m.prompt_tokens_per_s, prompts / forecast->times.prompts.value,
           std::pair(prompts / forecast->fastest.prompts.value,
                     prompts / forecast->slowest.prompts.value));
  rows.add("tg_tps", m.output_tokens_per_s, answers / forecast->times.answers.value,
           std::pair(answers / forecast->fastest.answers.value,
                     answers / forecast->slowest.answers.value));
  return std::nullopt;
}

std::optional<Error> compare(const ServingMeasurement& m, const ServingComparison& how,
                             const TomlDocument& given, NameResolver& resolver, Validation& out) {
  if (m.is_doubtful() && !how.doubtful) return bad_input(fmt::format("marked {}", m.flags));
  const auto run = resolve_serving(m, resolver, given);
  if (!run) return run.error();
  const std::string& runtime = run->scenario->runtime.id;
  if (!how.runtime.empty() && runtime != how.runtime)
    return bad_input(fmt::format("ran on {}, not on {}", runtime, how.runtime));
  const auto before = out.rows.size();
  if (auto error = m.arrival == "lockstep" ? compare_lockstep(*run, out) : compare_load(*run, out))
    return error;
  if (out.rows.size() == before)
    return bad_input("it has no figure that is forecast of such a load");
  for (const std::string& note : m.notes) out.notes.push_back({m.id, note});
  return std::nullopt;
}

}  // namespace

Result<Validation> compare_servers(const ServingComparison& how, const TomlDocument& given,
                                   const Catalogue& catalogue) {
  const ServingForm form = serving_form(how.text);
  const auto runs = parse_serving_results(how.text, form, how.file);
  if (!runs) return runs.error();
  const TomlDocument nothing(how.file);
  const TomlDocument& said = form == ServingForm::kTable ? nothing : given;
  NameResolver resolver(catalogue);
  if (form != ServingForm::kTable)
    for (const ServingMeasurement& m : *runs)
      if (auto error = missing_facts(m, given, resolver)) return *error;
  Validation validation;
  validation.against = how.file;
  ProgressLine progress;
  for (const ServingMeasurement& m : *runs) {
    progress.show(fmt::format("{} of {} runs", &m - runs->data(), runs->size()));
    if (const auto error = compare(m, how, said, resolver, validation))
      validation.skipped.push_back({m.id, error->message});
  }
  validation.summary = summarize(validation.rows);
  return validation;
}

}  // namespace rigcast::cli
