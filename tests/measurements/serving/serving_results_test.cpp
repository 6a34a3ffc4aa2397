// What benchmarks of servers write: files with the keys of each program, and invented figures.
#include "measurements/serving/serving_results.hpp"

#include <fmt/format.h>

#include <cmath>

#include "measurements/serving/measured_lengths.hpp"
#include "tests/catch.hpp"
#include "tests/measurements/serving/serving_result_files.hpp"

using namespace rigcast;
using namespace rigcast::fixtures;

namespace {

std::vector<ServingMeasurement> runs_of(const std::string& text, ServingForm form) {
  CHECK(serving_form(text) == form);
  const auto runs = parse_serving_results(text, form, "runs.json");
  INFO((runs ? std::string() : runs.error().text()));
  REQUIRE(runs);
  return *runs;
}

ServingMeasurement one(const std::string& text, ServingForm form) {
  const auto runs = runs_of(text, form);
  REQUIRE(runs.size() == 1);
  return runs.front();
}

std::string refusal(const std::string& text) {
  const auto runs = parse_serving_results(text, serving_form(text), "runs.json");
  return runs ? std::string() : runs.error().text();
}

// `text` with the first `from` in it replaced.
std::string changed(std::string text, const std::string& from, const std::string& to) {
  const auto at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

}  // namespace

TEST_CASE("vllm bench serve: users, lengths, milliseconds", "[serving]") {
  const ServingMeasurement m = one(kVllmBench, ServingForm::kVllmBench);
  CHECK(m.engine.empty());  // whoever speaks OpenAI's interface
  CHECK(m.model == "meta-llama/Llama-3.1-8B-Instruct");
  CHECK(m.arrival == "closed");
  CHECK(*m.concurrency == 16);
  CHECK(m.prompt_tokens == 1024);
  CHECK(m.output_tokens == 128);
  CHECK_FALSE(m.varied_lengths);
  CHECK(*m.requests == 200);
  CHECK(*m.output_tokens_per_s == 621.4);
  CHECK(*m.ttft.p50 == 380.1);
  CHECK(*m.ttft.p99 == 1102.5);
  CHECK(*m.tpot.mean == 22.6);
  CHECK(*m.itl.p50 == 18.9);
  CHECK_FALSE(m.e2e.mean);
  CHECK(m.obstacle.empty());
}

TEST_CASE("vllm bench serve: how requests arrive", "[serving]") {
  const auto with = [](const std::string& rate, const std::string& burstiness,
                       const std::string& limit) {
    std::string text =
        changed(kVllmBench, "\"request_rate\": \"inf\"", "\"request_rate\": " + rate);
    text = changed(text, "\"burstiness\": 1.0", "\"burstiness\": " + burstiness);
    return one(changed(text, "\"max_concurrency\": 16", "\"max_concurrency\": " + limit),
               ServingForm::kVllmBench);
  };
  CHECK(with("\"inf\"", "1.0", "null").arrival == "all at once");
  CHECK(with("\"inf\"", "1.0", "200").arrival == "all at once");  // a limit that never holds
  CHECK(with("4.0", "1.0", "null").arrival == "poisson");
  CHECK(*with("4.0", "1.0", "null").rate == 4);
  CHECK(with("4.0", "0.25", "null").arrival == "gamma");
  CHECK(with("4.0", "0.25", "null").cv == 2);
  CHECK(with("4.0", "Infinity", "null").arrival == "constant");
  // 32 ran at once at the peak.
  CHECK(with("4.0", "1.0", "64").obstacle.empty());
  CHECK(with("4.0", "1.0", "32").obstacle.find("limit of the client") != std::string::npos);
}

TEST_CASE("vllm bench serve: every length with --save-detailed, metadata, failures", "[serving]") {
  std::string text = changed(kVllmBench, "\"failed\": 0",
                             "\"failed\": 1, \"input_lens\": [10, 30, 30, 99], \"output_lens\": "
                             "[5, 7, 7, 0], \"ttfts\": [0.1], \"itls\": [[0.1, NaN]]");
  text = changed(text, "\"num_prompts\": 200",
                 "\"num_prompts\": 201, \"gpu\": \"RTX 4090\", "
                 "\"tensor_parallel_size\": \"2\"");
  const ServingMeasurement m = one(text, ServingForm::kVllmBench);
  using Bins = std::vector<std::pair<TokenCount, double>>;
  CHECK(m.prompt_spread.histogram == Bins{{10, 1}, {30, 2}});  // of those that were answered
  CHECK(m.output_spread.histogram == Bins{{5, 1}, {7, 2}});
  CHECK(lengths_toml(30, m.prompt_spread, true) == "{ histogram = [[10, 1], [30, 2]] }");
  CHECK(longest(30, m.prompt_spread, true) == 30);
  CHECK(m.gpu == "RTX 4090");
  CHECK(m.gpus == 2);
  REQUIRE(m.notes.size() == 1);
  CHECK(m.notes.front() == "1 of 201 requests failed");
  // Without them, totals that do not divide are those of lengths that vary.
  const auto varied =
      changed(kVllmBench, "\"total_output_tokens\": 25600", "\"total_output_tokens\": 25601");
  CHECK(one(varied, ServingForm::kVllmBench).varied_lengths);
  CHECK(one(varied, ServingForm::kVllmBench).notes.size() == 1);
}

TEST_CASE("SGLang's bench_serving: a run a line", "[serving]") {
  const auto runs = runs_of(kSglangBench, ServingForm::kSglangBench);
  REQUIRE(runs.size() == 2);
  const ServingMeasurement& closed = runs[0];
  CHECK(closed.engine == "sglang");
  CHECK(closed.model == "Qwen/Qwen3-8B");
  CHECK(closed.arrival == "closed");  // "request_rate": Infinity
  CHECK(*closed.concurrency == 8);
  CHECK(*closed.e2e.p99 == 2400.5);
  CHECK(*closed.itl.p95 == 14.25);
  CHECK(*closed.memory_share == 0.85);
  CHECK(closed.id == "runs.json:1");
  // From a half of the longest to it.
  REQUIRE(closed.output_spread.range);
  CHECK(*closed.output_spread.range == std::pair<TokenCount, TokenCount>(64, 128));
  CHECK(lengths_toml(0, closed.output_spread, true) == "{ min = 64, max = 128 }");
  CHECK(runs[1].arrival == "poisson");
  CHECK(*runs[1].rate == 2.5);
  CHECK(runs[1].speculative);
  CHECK(runs[1].id == "runs.json:3");
}

TEST_CASE("llama-batched-bench: lines of JSON and its table are the same runs", "[serving]") {
  for (const std::string& text : {kBatchedJsonl, kBatchedTable}) {
    const auto runs = runs_of(text, ServingForm::kBatchedBench);
    REQUIRE(runs.size() == 2);
    const ServingMeasurement& m = runs[1];
    CHECK(m.engine == "llama.cpp");
    CHECK(m.arrival == "lockstep");
    CHECK(*m.concurrency == 8);
    CHECK(m.prompt_tokens == 512);
    CHECK(m.output_tokens == 32);
    CHECK(*m.batch == 2048);
    CHECK(*m.ubatch == 256);
    CHECK(*m.flash_attention);
    CHECK(*m.gpu_layers == 99);
    CHECK_FALSE(m.shared_prompt);
    // 8 x 512 tokens in 0.780 s, 8 x 32 in 0.512 s.
    CHECK(*m.prompt_tokens_per_s == Approx(8 * 512 / 0.780));
    CHECK(*m.output_tokens_per_s == Approx(500));
  }
  // A shared prompt is computed once.
  const auto shared = runs_of(changed(kBatchedTable, "is_pp_shared = 0", "is_pp_shared = 1"),
                              ServingForm::kBatchedBench);
  CHECK(*shared[1].prompt_tokens_per_s == Approx(512 / 0.780));
}

TEST_CASE("GuideLLM: the loads of a sweep, of both layouts", "[serving]") {
  const auto runs = runs_of(kGuideLlm, ServingForm::kGuideLlm);
  REQUIRE(runs.size() == 4);
  CHECK(runs[0].arrival == "closed");
  CHECK(*runs[0].concurrency == 1);
  CHECK(*runs[1].concurrency == 8);
  CHECK(*runs[1].ttft.p95 == 120);
  CHECK(*runs[1].tpot.mean == 11);   // its "inter-token latency", and not its TPOT of 13
  CHECK(*runs[1].e2e.mean == 1500);  // seconds there
  CHECK(*runs[1].prompt_spread.deviation == 0);
  CHECK(*runs[1].output_spread.deviation == 20);
  CHECK(runs[1].id == "runs.json#2");
  CHECK(runs[2].arrival == "constant");
  CHECK(*runs[2].rate == 3.5);
  CHECK(runs[3].obstacle.find("ran at once") != std::string::npos);  // of "throughput"
  for (const ServingMeasurement& m : runs) CHECK(m.model == "Qwen/Qwen3-8B");
}

TEST_CASE("AIPerf and GenAI-Perf: units, and both layouts of the load", "[serving]") {
  const ServingMeasurement m = one(kAiPerf, ServingForm::kAiPerf);
  CHECK(m.model == "Qwen/Qwen3-8B");
  CHECK(m.arrival == "closed");
  CHECK(*m.concurrency == 4);
  CHECK(*m.ttft.mean == 195.84);
  CHECK(*m.tpot.p99 == 35.96);
  CHECK(*m.e2e.p50 == Approx(2431.75));  // stated in seconds
  CHECK(*m.output_tokens_per_s == 52.69);
  CHECK(*m.requests == 10);
  const auto phases = changed(kAiPerf, R"("loadgen": {"concurrency": 4})",
                              R"("phases": [{"name": "warmup", "type": "concurrency",
   "concurrency": 2}, {"name": "profiling", "type": "gamma", "rate": 2, "smoothness": 4}])");
  CHECK(one(phases, ServingForm::kAiPerf).arrival == "gamma");
  CHECK(one(phases, ServingForm::kAiPerf).cv == 0.5);
  const auto older = changed(kAiPerf, R"("loadgen": {"concurrency": 4})",
                             R"("perf_analyzer": {"stimulus": {"concurrency": 32}})");
  CHECK(*one(older, ServingForm::kAiPerf).concurrency == 32);
  CHECK(refusal(changed(kAiPerf, "\"unit\": \"sec\"", "\"unit\": \"furlong\""))
            .find("unit of time") != std::string::npos);
}

TEST_CASE("A file that is nothing of a server is left to others", "[serving]") {
  for (const char* text : {"", "id,gpu,model,quant,metric,value\n", "[{\"avg_ts\": 1}]", "{}",
                           "{\"avg_ts\": 1, \"model_filename\": \"m\"}\n", "\xEF\xBB\xBF"})
    CHECK(serving_form(text) == ServingForm::kNone);
}

TEST_CASE("Broken results are refused with line and reason", "[serving]") {
  const auto refuses = [](const std::string& text, const std::string& place,
                          const std::string& reason) {
    const std::string said = refusal(text);
    INFO(said);
    CHECK(said.find(place) != std::string::npos);
    CHECK(said.find(reason) != std::string::npos);
  };
  refuses(kVllmBench.substr(0, kVllmBench.size() - 40), "runs.json:1:", "ends early");
  refuses(changed(kVllmBench, "380.1", "-1"), "runs.json:1:", "median_ttft_ms: -1 is not");
  refuses(changed(kVllmBench, "380.1", "\"fast\""), "runs.json:1:", "expected a number");
  refuses(changed(kVllmBench, "\"completed\": 200", "\"completed\": null"),
          "runs.json:1:", "how many requests were answered");
  refuses(changed(kSglangBench, "\"request_rate\": 2.5", "\"request_rate\": [2.5]"),
          "runs.json:3:", "request_rate: expected a number");
  refuses(kSglangBench.substr(0, kSglangBench.size() - 9), "runs.json:3:", "ends early");
  refuses(kBatchedJsonl.substr(0, kBatchedJsonl.size() - 30), "runs.json:2:", "ends early");
  refuses(kBatchedTable.substr(0, kBatchedTable.size() - 30), "runs.json:6:", "of 10 columns");
  refuses(changed(kBatchedTable, "0.780", "nan"), "runs.json:6:", "t_pp: \"nan\" is no number");
  // The line of the figure, of an object over many lines.
  refuses(changed(kGuideLlm, "\"p95\": 120", "\"p95\": true"), "runs.json:10:",
          "benchmarks.1.metrics.time_to_first_token_ms.successful.percentiles.p95");
  refuses(changed(kGuideLlm, "\"streams\": 8", "\"flows\": 8"), "runs.json:", "is not stated");
  refuses("{\"benchmarks\": 7}", "runs.json:1:", "benchmarks: expected a list");
  refuses("{\"benchmarks\": [7]}", "runs.json:1:", "expected an object");
  refuses("{\"benchmarks\": []}", "runs.json:1:", "there is none");
  refuses("{\"benchmarks\": " + std::string(100'000, '['), "runs.json:1:", "nested too deeply");
  refuses(changed(kVllmBench, "380.1", "1e999"), "runs.json:1:", "out of range");
}

TEST_CASE("Many different lengths become bins of as many requests", "[serving]") {
  std::vector<double> lengths;
  for (int i = 1; i <= 1000; ++i) lengths.push_back(i);
  const auto bins = histogram_of(lengths);
  CHECK(bins.size() == 256);
  double sum = 0, count = 0;
  for (const auto& [tokens, weight] : bins) {
    sum += double(tokens) * weight;
    count += weight;
  }
  CHECK(count == 1000);
  CHECK(sum / count == Approx(500.5).epsilon(0.001));
  // A deviation is that of a lognormal length: its mean is kept.
  const std::string toml = lengths_toml(100, {50.0, {}, {}}, false);
  const double sigma = std::sqrt(std::log1p(0.25));
  CHECK(toml.find(fmt::format("median = {:.1f}", 100 / std::exp(sigma * sigma / 2))) !=
        std::string::npos);
  CHECK(lengths_toml(100, {0.0, {}, {}}, true) == "100");
}
