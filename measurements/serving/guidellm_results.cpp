#include "measurements/serving/guidellm_results.hpp"

#include <fmt/format.h>

#include <initializer_list>

namespace rigcast {
namespace {

constexpr double kMaxTokens = 1e9, kMaxMs = 1e9, kMaxRate = 1e9;
constexpr int kMaxRequests = 10'000'000;

// The first text that is there.
std::string first_text(const ResultObject& object,
                       std::initializer_list<std::initializer_list<std::string_view>> paths,
                       std::string_view key) {
  for (const auto& path : paths)
    if (std::string found = object.at(path).text(key); !found.empty()) return found;
  return "";
}

// Of requests that were answered; `to_ms`: 1,000 of seconds.
MeasuredPercentiles percentiles(const ResultObject& metrics, const char* metric, double to_ms = 1) {
  const ResultObject of = metrics.at({metric, "successful"});
  const ResultObject shares = of.object("percentiles");
  const auto in_ms = [&](const ResultObject& object, const char* key) {
    auto value = object.number(key, kMaxMs);
    if (value) *value *= to_ms;
    return value;
  };
  MeasuredPercentiles p{in_ms(of, "mean"), in_ms(shares, "p50"), in_ms(shares, "p90"),
                        in_ms(shares, "p95"), in_ms(shares, "p99")};
  if (!p.p50) p.p50 = in_ms(of, "median");
  return p;
}

void read_strategy(const ResultObject& strategy, const std::string& kind, ServingMeasurement& m) {
  m.rate = strategy.number("rate", kMaxRate);
  const auto limit = strategy.integer("max_concurrency", 1'000'000);
  if (kind == "synchronous") {
    m.arrival = "closed";
    m.concurrency = 1;
  } else if (kind == "concurrent") {
    m.arrival = "closed";
    m.concurrency = strategy.integer("streams", 1'000'000);
    if (!m.concurrency) strategy.refuse("streams", "how many run at once is not stated");
  } else if (kind == "throughput") {
    m.arrival = "closed";
    m.concurrency = limit;
    if (!limit) m.obstacle = "how many requests ran at once is not stated";
  } else if (kind == "constant" || kind == "poisson") {
    m.arrival = kind;
    if (!m.rate) strategy.refuse("rate", "the rate is not stated");
  } else {
    m.obstacle = fmt::format("a load of the kind \"{}\" is not forecast", kind.substr(0, 40));
  }
}

void read_lengths(const ResultObject& metrics, ServingMeasurement& m) {
  const ResultObject in = metrics.at({"prompt_token_count", "successful"});
  const ResultObject out = metrics.at({"output_token_count", "successful"});
  m.prompt_tokens = in.number("mean", kMaxTokens).value_or(0);
  m.output_tokens = out.number("mean", kMaxTokens).value_or(0);
  m.prompt_spread.deviation = in.number("std_dev", kMaxTokens);
  m.output_spread.deviation = out.number("std_dev", kMaxTokens);
}

// 0.2 has them beside the metrics, later ones in them.
ResultObject totals_of(const ResultObject& run) {
  for (const char* above : {"scheduler_metrics", "run_stats"})
    if (run.object(above).has("requests_made")) return run.at({above, "requests_made"});
  return run.at({"metrics", "request_totals"});
}

ServingMeasurement run_of(const ResultObject& run) {
  ServingMeasurement m;
  m.line = run.line();
  ResultObject strategy = run.at({"args", "strategy"});
  for (const char* above : {"config", "scheduler"})
    if (run.object(above).has("strategy")) strategy = run.at({above, "strategy"});
  std::string kind = strategy.text("type_");
  if (kind.empty()) kind = strategy.text("kind");
  if (!run.has("metrics")) run.refuse("metrics", "this run lacks it");
  if (kind.empty()) strategy.refuse("type_", "how requests arrived is not stated");
  read_strategy(strategy, kind, m);
  m.model = first_text(run, {{"config", "backend"}, {"worker"}}, "model");
  if (m.model.empty()) m.model = run.object("worker").text("backend_model");
  const ResultObject metrics = run.object("metrics");
  read_lengths(metrics, m);
  const ResultObject totals = totals_of(run);
  m.requests = totals.integer("successful", kMaxRequests);
  const int failed = totals.integer("errored", kMaxRequests).value_or(0);
  if (m.requests == 0) m.obstacle = "no request was answered";
  if (failed > 0) m.notes.push_back(fmt::format("{} requests failed", failed));
  m.output_tokens_per_s =
      metrics.at({"output_tokens_per_second", "successful"}).number("mean", kMaxRate);
  m.ttft = percentiles(metrics, "time_to_first_token_ms");
  m.tpot = percentiles(metrics, "inter_token_latency_ms");
  m.e2e = percentiles(metrics, "request_latency", 1000);
  return m;
}

}  // namespace

std::vector<ServingMeasurement> guidellm_runs(const ResultObject& report) {
  const std::string model = first_text(
      report, {{"args"}, {"args", "backend_kwargs"}, {"config", "spec", "backend"}}, "model");
  std::vector<ServingMeasurement> runs;
  for (const ResultObject& run : report.objects("benchmarks")) {
    runs.push_back(run_of(run));
    if (runs.back().model.empty()) runs.back().model = model;
  }
  if (runs.empty()) report.refuse("benchmarks", "there is none");
  return runs;
}

}  // namespace rigcast
