#include "measurements/serving/aiperf_results.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "core/text/freetext.hpp"

namespace rigcast {
namespace {

constexpr double kMaxTokens = 1e9, kMaxFigure = 1e18, kMaxRate = 1e9;
constexpr int kMaxRequests = 10'000'000, kMaxUsers = 1'000'000;

// Milliseconds of a unit of time; without one, it is ms.
std::optional<double> ms_of(const std::string& unit) {
  static const std::map<std::string, double> kUnits{{"", 1},      {"ms", 1},    {"s", 1e3},
                                                    {"sec", 1e3}, {"us", 1e-3}, {"ns", 1e-6}};
  const auto found = kUnits.find(freetext::lower(unit));
  return found == kUnits.end() ? std::nullopt : std::optional(found->second);
}

MeasuredPercentiles percentiles(const ResultObject& metric) {
  const auto ms = ms_of(metric.text("unit"));
  if (!ms) metric.refuse("unit", "expected a unit of time: ms, s, us or ns");
  const auto at = [&](const char* key) {
    auto value = metric.number(key, kMaxFigure);
    if (value) *value *= ms.value_or(1);
    return value;
  };
  return {at("avg"), at("p50"), at("p90"), at("p95"), at("p99")};
}

void read_lengths(const ResultObject& metric, double& mean, LengthSpread& spread) {
  mean = metric.number("avg", kMaxTokens).value_or(0);
  spread.deviation = metric.number("std", kMaxTokens);
}

// How the load was made, of any of the layouts.
struct Generated {
  std::optional<int> concurrency;
  std::optional<double> rate;
  std::string pattern;  // "poisson", "constant", "gamma", or of a load without a rate
  double smoothness = 1;
};

Generated generated_of(const ResultObject& config) {
  ResultObject load = config.object("loadgen");
  for (const ResultObject& phase : config.objects("phases"))
    if (phase.text("name") == "profiling") load = phase;
  Generated out;
  out.pattern = load.text("arrival_pattern");
  for (const char* key : {"request_rate_mode", "type"})
    if (out.pattern.empty()) out.pattern = load.text(key);
  out.pattern = freetext::lower(out.pattern);
  out.rate = load.number("request_rate", kMaxRate);
  if (!out.rate) out.rate = load.number("rate", kMaxRate);
  out.concurrency = load.integer("concurrency", kMaxUsers);
  for (const char* key : {"smoothness", "arrival_smoothness"})
    if (const auto shape = load.number(key, 1e9); shape && *shape > 0) out.smoothness = *shape;
  if (out.rate || out.concurrency) return out;
  // GenAI-Perf sends requests at constant gaps.
  const ResultObject stimulus = config.at({"perf_analyzer", "stimulus"});
  for (const ResultObject& from : {stimulus, config}) {
    if (!out.concurrency) out.concurrency = from.integer("concurrency", kMaxUsers);
    if (!out.rate) out.rate = from.number("request_rate", kMaxRate);
  }
  if (out.rate) out.pattern = "constant";
  return out;
}

void read_arrivals(const ResultObject& config, ServingMeasurement& m) {
  const Generated load = generated_of(config);
  const bool open = load.rate && *load.rate > 0;
  if (!open && !load.concurrency) {
    m.obstacle = "neither users nor a rate are stated";
    return;
  }
  if (open && load.concurrency) {
    m.obstacle =
        "requests that come at a rate, but wait for a limit of the client, are not forecast";
    return;
  }
  m.concurrency = load.concurrency;
  m.arrival = "closed";
  if (!open) return;
  m.rate = load.rate;
  m.arrival = load.pattern.empty() ? "poisson" : load.pattern;
  if (m.arrival == "gamma") m.cv = 1 / std::sqrt(load.smoothness);
}

std::string model_of(const ResultObject& config) {
  std::string model = config.object("endpoint").text("model_names");
  for (const char* key : {"model", "model_names"})
    if (model.empty() && !config.has("models")) model = config.text(key);
  if (!model.empty() || !config.has("models")) return model;
  const auto items = config.object("models").objects("items");
  return items.empty() ? "" : items.front().text("name");
}

}  // namespace

ServingMeasurement aiperf_run(const ResultObject& run) {
  ServingMeasurement m;
  m.line = run.line();
  const ResultObject figures = run.has("records") ? run.object("records") : run;
  const auto figure = [&](const char* metric, const char* older) {
    return figures.has(metric) || !figures.has(older) ? figures.object(metric)
                                                      : figures.object(older);
  };
  const ResultObject config = run.object("input_config");
  m.model = model_of(config);
  read_arrivals(config, m);
  read_lengths(figure("input_sequence_length", "isl"), m.prompt_tokens, m.prompt_spread);
  read_lengths(figure("output_sequence_length", "osl"), m.output_tokens, m.output_spread);
  m.requests = figures.object("request_count").integer("avg", kMaxRequests);
  m.output_tokens_per_s = figures.object("output_token_throughput").number("avg", kMaxRate);
  m.ttft = percentiles(figure("time_to_first_token", "ttft"));
  m.tpot = percentiles(figures.object("inter_token_latency"));
  m.e2e = percentiles(figures.object("request_latency"));
  const int failed = figures.object("error_request_count").integer("avg", kMaxRequests).value_or(0);
  if (failed > 0) m.notes.push_back(fmt::format("{} requests failed", failed));
  if (run.flag("was_cancelled") == true) m.obstacle = "the benchmark was cancelled";
  if (!figures.has("request_latency")) m.obstacle = "no request was answered";
  return m;
}

}  // namespace rigcast
