// Where the time of a token goes on a GPU, kernel by kernel, as CUPTI records it inside the graph
// that the engine runs, beside what its memory allows.
//   bench_gpu_kernels MODEL QUANT [DEPTH | TOKENS@DEPTH]...    one table for each; 512 without one
//   bench_gpu_kernels --all                                    those of several models
// TOKENS@DEPTH: of a prompt's batch of so many tokens instead of a token.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bench/kernel_table/rows.hpp"
#include "bench/kernel_table/token_rows.hpp"
#include "bench/kernel_trace.hpp"
#include "core/catalogue/catalogue.hpp"
#include "engine/backends/cuda/make_cuda_executor.hpp"
#include "engine/run/request.hpp"
#include "probe/gpu.hpp"
#include "probe/gpu/measure_gpus.hpp"

using namespace rigcast;
using namespace rigcast::engine;
using namespace rigcast::bench;

namespace {

constexpr TokenCount kPrompt = 16, kOutput = 34;

struct Wanted {
  TokenCount tokens = 0, depth = 512;  // no tokens: the time of a token
};

struct WantedModel {
  std::string model, quant;
  std::vector<Wanted> tables;

  std::string name() const { return fmt::format("{} {}", model, quant); }
};

std::vector<WantedModel> all_models() {
  const std::vector<Wanted> after_512(1), after_both{{}, {0, 32768}};
  return {{"qwen2.5-0.5b", "F16", after_512},    {"qwen2.5-0.5b", "Q4_K_M", after_512},
          {"llama-3.2-1b", "F16", after_512},    {"llama-3.1-8b", "Q4_K_M", after_both},
          {"llama-3.1-8b", "Q8_0", after_both},  {"llama-3.1-8b", "F16", after_both},
          {"qwen2.5-14b", "Q4_K_M", after_512},  {"qwen2.5-32b", "Q4_K_M", after_512},
          {"qwen3-30b-a3b", "Q4_K_M", after_512}};
}

// What all tables share.
struct Bench {
  double memory = 0;  // bytes/s
  KernelTrace trace;
};

void print(const Rows& rows, const Scale& scale) {
  fmt::print("{}\n", heading(scale));
  for (const Row& row : rows.sorted()) fmt::print("{}\n", text(row, scale));
}

RequestTimes request(Executor& executor, TokenCount depth, KernelTrace* trace) {
  const auto prompt = random_prompt(kPrompt, executor.model().spec.vocabulary, 1);
  executor.truncate(0);
  executor.fill(std::max<TokenCount>(0, depth - kPrompt));
  Sampler sampler({});
  if (trace) trace->begin();
  return run_request(executor, prompt, kOutput, sampler);
}

void trace_tokens(Bench& bench, Executor& executor, const std::string& name, TokenCount depth) {
  request(executor, depth, nullptr);  // prepares buffers, clocks and graphs
  const std::vector<double> at = request(executor, depth, nullptr).tokens.at_s;
  const double seconds = (at.back() - at.front()) / double(kOutput - 1);
  request(executor, depth, &bench.trace);
  const std::vector<KernelRun> runs = bench.trace.end();
  const TokenRows found =
      token_rows(executor.model(), ExecutorOptions{}.kv_types, runs, executor.cached());
  if (found.tokens == 0) throw std::runtime_error("no tokens were traced");
  fmt::print("{}, a token after {}\n", name, depth);
  print(found.rows, {found.tokens, found.rows.ns(), bench.memory, "us/token"});
  const double traced_s = found.rows.ns() / found.tokens / 1e9;
  if (found.unknown.empty())
    fmt::print("{}\n\n", text(TokenTotal{found.rows.bytes() / found.tokens, seconds, traced_s,
                                         bench.memory}));
  else
    fmt::print("{:.0f} us a token ({:.0f} with CUPTI): {:.0f} tok/s; bytes are unknown: {}\n\n",
               seconds * 1e6, traced_s * 1e6, 1 / seconds, found.unknown);
}

void trace_batch(Bench& bench, Executor& executor, const std::string& name, const Wanted& wanted) {
  const auto prompt = random_prompt(wanted.tokens, executor.model().spec.vocabulary, 1);
  for (const bool records : {false, true}) {
    executor.truncate(0);
    executor.fill(wanted.depth);
    if (records) bench.trace.begin();
    executor.forward(prompt, Logits::kLast);
  }
  const std::vector<KernelRun> runs = bench.trace.end();
  if (runs.empty()) throw std::runtime_error("no batch was traced");
  Rows rows(runs.front().start);
  rows.add(runs, {});
  fmt::print("{}, {} tokens after {}\n", name, wanted.tokens, wanted.depth);
  print(rows, {1, rows.ns(), bench.memory, "us"});
  fmt::print("{:.0f} us: {:.0f} tok/s; bytes are told of single tokens alone\n\n", rows.ns() / 1e3,
             1e9 * double(wanted.tokens) / rows.ns());
}

TokenCount count_of(std::string_view text) {
  TokenCount n = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), n);
  if (error != std::errc{} || end != text.data() + text.size() || n < 0 || n > (1 << 22))
    throw std::runtime_error(fmt::format("no number of tokens: {}", text));
  return n;
}
// "DEPTH" or "TOKENS@DEPTH"
Wanted wanted(std::string_view text) {
  const auto at = text.find('@');
  if (at == text.npos) return {0, count_of(text)};
  return {std::max<TokenCount>(1, count_of(text.substr(0, at))), count_of(text.substr(at + 1))};
}

void print_tables(Bench& bench, const Catalogue& catalogue, const WantedModel& of) {
  const auto spec = catalogue.model(of.model);
  if (!spec) throw std::runtime_error(spec.error().text());
  const auto mix = QuantMix::from_name(of.quant);
  if (!mix) throw std::runtime_error(fmt::format("no mix {}", of.quant));
  const auto table = make_tensor_table(*spec, *mix);
  if (!table) throw std::runtime_error(table.error().text());
  ExecutorOptions options;
  for (const Wanted& w : of.tables) options.ubatch = std::max(options.ubatch, w.tokens);
  const auto executor = make_synthetic_cuda_executor(*spec, *table, 1, options);
  if (!executor) throw std::runtime_error(executor.error().text());
  for (const Wanted& w : of.tables) {
    w.tokens > 0 ? trace_batch(bench, **executor, of.name(), w)
                 : trace_tokens(bench, **executor, of.name(), w.depth);
    std::fflush(stdout);
  }
}

// The rate is measured before anything else uses the GPU, which that resets.
Bench measured_bench() {
  const probe::Gpus gpus = probe::measure_gpus([](const std::string&) {});
  if (gpus.found.empty()) throw std::runtime_error(fmt::format("no GPU: {}", gpus.none));
  const probe::Gpu& gpu = gpus.found.front();
  if (!(gpu.vram_read.median > 0)) throw std::runtime_error("the memory's rate was not measured");
  fmt::print("{}, memory reads {:.0f} GB/s\n", gpu.name, gpu.vram_read.median / 1e9);
  fmt::print(
      "MB: of weights or cache that a call reads; mem: GB/s by memory's; once: blocks that "
      "run at once\n\n");
  return {gpu.vram_read.median, KernelTrace(gpu_limits())};
}

std::vector<WantedModel> wanted_models(std::span<char* const> arguments) {
  if (arguments.size() == 1 && arguments[0] == std::string_view("--all")) return all_models();
  if (arguments.size() < 2) return {};
  WantedModel model{arguments[0], arguments[1], {}};
  for (const char* text : arguments.subspan(2)) model.tables.push_back(wanted(text));
  if (model.tables.empty()) model.tables.emplace_back();
  return {model};
}

int run(std::span<char* const> arguments) {
  const auto models = wanted_models(arguments);
  if (models.empty()) {
    fmt::print(stderr,
               "usage: bench_gpu_kernels MODEL QUANT [DEPTH | TOKENS@DEPTH]...\n"
               "       bench_gpu_kernels --all\n");
    return 2;
  }
  const char* data = std::getenv("RIGCAST_DATA");  // for a build that was moved to another machine
  const Catalogue catalogue{data ? data : RIGCAST_SOURCE_DIR};
  Bench bench = measured_bench();
  int failed = 0;
  for (const WantedModel& model : models) {
    try {
      print_tables(bench, catalogue, model);
    } catch (const std::exception& e) {
      fmt::print(stderr, "{}: {}\n", model.name(), e.what());
      failed = 1;
    }
  }
  return failed;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run({argv + 1, argv + argc});
  } catch (const std::exception& e) {
    fmt::print(stderr, "bench_gpu_kernels: {}\n", e.what());
    return 1;
  }
}
