#include "measurements/serving/client_results.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "core/text/freetext.hpp"
#include "measurements/serving/measured_lengths.hpp"

namespace rigcast {
namespace {

constexpr double kMaxTokens = 1e9, kMaxMs = 1e9, kMaxRate = 1e9;
constexpr int kMaxRequests = 10'000'000;

// "mean_ttft_ms", "median_ttft_ms", "p99_ttft_ms".
MeasuredPercentiles percentiles(const ResultObject& run, const std::string& metric) {
  const auto at = [&](const char* which) {
    return run.number(fmt::format("{}_{}_ms", which, metric), kMaxMs);
  };
  MeasuredPercentiles p{at("mean"), at("median"), at("p90"), at("p95"), at("p99")};
  if (!p.p50) p.p50 = at("p50");
  return p;
}

// A client names the interface that it talks to: of OpenAI's anybody may be behind it.
std::string engine_of(std::string backend) {
  backend = freetext::lower(backend);
  if (backend.starts_with("openai") || backend.starts_with("sglang-oai")) return "";
  for (const char* engine : {"sglang", "vllm", "lmdeploy"})
    if (backend.starts_with(engine)) return engine;
  return backend;
}

// Gaps of a gamma distribution have its shape: 1 is Poisson, infinity a constant gap.
void read_gaps(const ResultObject& run, ServingMeasurement& m) {
  const double shape = run.number_or_infinity("burstiness", 1e9).value_or(1);
  if (std::isinf(shape))
    m.arrival = "constant";
  else if (shape > 0 && shape != 1)
    m.arrival = "gamma";
  if (m.arrival == "gamma") m.cv = 1 / std::sqrt(shape);
}

void read_arrivals(const ResultObject& run, int sent, ServingMeasurement& m) {
  m.concurrency = run.integer("max_concurrency", 1'000'000);
  if (m.concurrency == 0) m.concurrency.reset();
  if (run.text("request_rate") == "trace") {
    m.obstacle = "requests were sent as a trace says, which is not in this file";
    return;
  }
  m.rate = run.number_or_infinity("request_rate", kMaxRate);
  if (!m.rate) run.refuse("request_rate", "how requests arrived is not stated");
  const bool limited = m.concurrency && *m.concurrency < sent;
  if (!m.rate || std::isinf(*m.rate) || *m.rate == 0) {
    m.arrival = limited ? "closed" : "all at once";
    m.rate.reset();
    return;
  }
  m.arrival = "poisson";
  read_gaps(run, m);
  if (run.has("ramp_up_strategy")) m.obstacle = "a rate that rises is not forecast";
  // A limit that was never reached changes nothing.
  const auto peak = run.integer("max_concurrent_requests", kMaxRequests);
  if (limited && (!peak || *peak >= *m.concurrency))
    m.obstacle =
        "requests that come at a rate, but wait for a limit of the client, are not "
        "forecast";
  m.concurrency.reset();
}

// Totals of requests that are alike divide by their number. Of a random data set prompts may differ
// by what tokenizing them anew changes; answers do not.
void read_mean_lengths(const ResultObject& run, ServingMeasurement& m) {
  const double in = run.number("total_input_tokens", 1e15).value_or(0);
  const double out = run.number("total_output_tokens", 1e15).value_or(0);
  const double requests = std::max(1, *m.requests);
  m.prompt_tokens = in / requests;
  m.output_tokens = out / requests;
  m.varied_lengths = std::fmod(out, requests) != 0;
}

// Of requests that were answered.
void read_every_length(const ResultObject& run, ServingMeasurement& m) {
  const std::vector<double> in = run.numbers("input_lens", kMaxTokens);
  const std::vector<double> out = run.numbers("output_lens", kMaxTokens);
  if (in.empty() || in.size() != out.size()) return;
  std::vector<double> prompts, answers;
  for (std::size_t i = 0; i < in.size(); ++i) {
    if (in[i] < 1 || out[i] < 1) continue;
    prompts.push_back(in[i]);
    answers.push_back(out[i]);
  }
  m.prompt_spread.histogram = histogram_of(std::move(prompts));
  m.output_spread.histogram = histogram_of(std::move(answers));
}

void read_common(const ResultObject& run, ServingMeasurement& m) {
  m.line = run.line();
  m.requests = run.integer("completed", kMaxRequests);
  if (!m.requests) run.refuse("completed", "how many requests were answered is not stated");
  if (!m.requests) m.requests = 0;
  if (*m.requests == 0) m.obstacle = "no request was answered";
  read_mean_lengths(run, m);
  read_every_length(run, m);
  m.output_tokens_per_s = run.number("output_throughput", kMaxRate);
  m.ttft = percentiles(run, "ttft");
  m.tpot = percentiles(run, "tpot");
  m.itl = percentiles(run, "itl");
}

void note_failures(int failed, int sent, ServingMeasurement& m) {
  if (failed > 0) m.notes.push_back(fmt::format("{} of {} requests failed", failed, sent));
}

void note_lengths(ServingMeasurement& m) {
  if (m.varied_lengths && m.prompt_spread.histogram.empty() && !m.output_spread.range)
    m.notes.emplace_back(
        "how lengths vary is not stated: assumed as in conversations (--save-detailed, or "
        "--output-details, states them)");
}

}  // namespace

ServingMeasurement vllm_bench_run(const ResultObject& run) {
  ServingMeasurement m;
  read_common(run, m);
  const std::string backend = run.text("backend");
  m.engine = engine_of(backend.empty() ? run.text("endpoint_type") : backend);
  m.model = run.text("model_id");
  m.gpu = run.text("gpu");
  m.quant = run.text("quant");
  const int sent = std::max(*m.requests, run.integer("num_prompts", kMaxRequests).value_or(0));
  read_arrivals(run, sent, m);
  m.e2e = percentiles(run, "e2el");
  const double parallel = std::atof(run.text("tensor_parallel_size").c_str());
  if (parallel > 1 && parallel < 1000) m.gpus = m.tensor_parallel = int(parallel);
  m.speculative = run.number("spec_decode_num_drafts", 1e15).value_or(0) > 0;
  if (!run.has("total_output_tokens")) m.obstacle = "requests without answers are not forecast";
  note_failures(run.integer("failed", kMaxRequests).value_or(sent - *m.requests), sent, m);
  note_lengths(m);
  return m;
}

ServingMeasurement sglang_bench_run(const ResultObject& run) {
  ServingMeasurement m;
  read_common(run, m);
  m.engine = engine_of(run.text("backend"));
  const ResultObject server = run.object("server_info");
  m.model = server.text("model_path");
  const int parallel = server.integer("tp_size", 1000).value_or(1);
  if (parallel > 1) m.gpus = m.tensor_parallel = parallel;
  m.memory_share = server.number("mem_fraction_static", 1);
  m.max_sequences = server.integer("max_running_requests", kMaxRequests);
  if (const auto budget = server.number("chunked_prefill_size", 1e9); budget > 0.0)
    m.max_step_tokens = int(*budget);
  read_arrivals(run, *m.requests, m);
  m.e2e = percentiles(run, "e2e_latency");
  // Drafts make a step yield more than a token.
  m.speculative = run.number("accept_length", 1e6).value_or(0) > 1;
  const double ratio = run.number("random_range_ratio", 1).value_or(1);
  const bool random = run.text("dataset_name").starts_with("random");
  const auto range = [&](const char* key, double mean) -> LengthSpread {
    const auto most = run.integer(key, int(kMaxTokens));
    if (!random || ratio == 1 || !most || *most < mean) return {};
    return {
        {}, std::pair(std::max<TokenCount>(1, TokenCount(*most * ratio)), TokenCount(*most)), {}};
  };
  if (m.output_spread.histogram.empty()) {
    m.prompt_spread = range("random_input_len", m.prompt_tokens);
    m.output_spread = range("random_output_len", m.output_tokens);
  }
  note_lengths(m);
  return m;
}

}  // namespace rigcast
