#include "calibration/serving/served_load.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>
#include <utility>

#include "sim/serving/simulate_load.hpp"

namespace rigcast::calibration {
namespace {

double intensity(const ServingMeasurement& m) {
  return m.concurrency ? *m.concurrency : m.rate ? *m.rate : m.requests.value_or(0);
}

std::optional<double> log_error(std::optional<double> forecast, std::optional<double> measured) {
  if (!forecast || !measured || *forecast <= 0 || *measured <= 0) return std::nullopt;
  return std::log(*forecast / *measured);
}

std::optional<double> seconds(std::optional<double> ms) {
  return ms ? std::optional(*ms / 1000) : std::nullopt;
}

}  // namespace

std::string_view name(LoadFigure figure) {
  constexpr std::string_view kNames[] = {"output_tps", "tpot_p50_s", "tpot_p99_s", "ttft_p50_s",
                                         "ttft_p99_s"};
  return kNames[std::size_t(figure)];
}

// Pipelines and several engines have rules of their own, which are held to their runs: kernels are
// not fitted on them.
bool takes_part(const ServingMeasurement& m) {
  return !m.is_doubtful() && m.arrival != "lockstep" && m.pipeline_parallel == 1 &&
         m.data_parallel == 1;
}

std::vector<ResolvedServing> distinct_loads(std::vector<ResolvedServing> runs) {
  using Key = std::tuple<std::string, std::string, std::string, int, int, double, std::string>;
  std::map<Key, std::vector<ResolvedServing>> groups;
  for (ResolvedServing& run : runs) {
    const ServingMeasurement& m = run.measured;
    const Scenario& s = *run.scenario;
    groups[{run.chip, s.model.id, s.quant, m.gpus, m.expert_parallel, m.power_limit.value_or(0),
            m.arrival}]
        .push_back(std::move(run));
  }
  std::vector<ResolvedServing> out;
  for (auto& [key, group] : groups) {
    std::ranges::stable_sort(group, {},
                             [](const ResolvedServing& run) { return intensity(run.measured); });
    const std::size_t last = group.size() - 1;
    out.push_back(group.front());
    if (last > 1) out.push_back(group[last / 2]);
    if (last > 0) out.push_back(group[last]);
  }
  return out;
}

LoadErrors errors_of(const ResolvedServing& run, const RuntimeProfile& profile, int requests) {
  Scenario scenario = *run.scenario;
  scenario.runtime = profile;
  LoadErrors errors;
  auto simulation = LoadSimulation::make(scenario);
  if (!simulation) return errors;
  Load load = *scenario.load;
  load.requests = std::min<std::int64_t>(load.requests, requests);
  const auto forecast = simulation->figures(load);
  if (!forecast) return errors;
  const ServingMeasurement& m = run.measured;
  const auto set = [&](LoadFigure figure, std::optional<double> of,
                       std::optional<double> measured) {
    errors.of[std::size_t(figure)] = log_error(of, measured);
  };
  if (m.arrival == "closed" || m.arrival == "all at once")
    set(LoadFigure::kThroughput, forecast->output_tokens_per_s, m.output_tokens_per_s);
  set(LoadFigure::kTpot, forecast->tpot.p50, seconds(m.tpot.p50));
  set(LoadFigure::kTpot99, forecast->tpot.p99, seconds(m.tpot.p99));
  const bool waits =
      forecast->state == ServingState::kBacklogged || forecast->state == ServingState::kOverloaded;
  if (m.arrival != "poisson" || waits) return errors;
  set(LoadFigure::kTtft, forecast->ttft.p50, seconds(m.ttft.p50));
  set(LoadFigure::kTtft99, forecast->ttft.p99, seconds(m.ttft.p99));
  return errors;
}

}  // namespace rigcast::calibration
