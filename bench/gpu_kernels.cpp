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

#include "bench/kernel_table/match.hpp"
#include "bench/kernel_table/products.hpp"
#include "bench/kernel_table/rows.hpp"
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
  return {{"qwen2.5-0.5b", "F16", {{}}},
          {"qwen2.5-0.5b", "Q4_K_M", {{}}},
          {"llama-3.2-1b", "F16", {{}}},
          {"llama-3.1-8b", "Q4_K_M", {{}, {0, 32768}}},
          {"llama-3.1-8b", "Q8_0", {{}, {0, 32768}}},
          {"llama-3.1-8b", "F16", {{}, {0, 32768}}},
          {"qwen2.5-14b", "Q4_K_M", {{}}},
          {"qwen2.5-32b", "Q4_K_M", {{}}},
          {"qwen3-30b-a3b", "Q4_K_M", {{}}}};
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

// A token from the kernel behind the last token's argmax to its own. `cached`: tokens before it.
struct TracedToken {
  std::span<const KernelRun> runs;
  TokenCount cached = 0;
};

struct TracedTokens {
  std::vector<TracedToken> tokens;
  std::uint64_t begin = 0;
};

// All that begin and end with an argmax. `cached`: tokens behind the last.
TracedTokens tokens_of(std::span<const KernelRun> runs, TokenCount cached) {
  std::vector<std::size_t> ends;
  for (std::size_t i = 0; i < runs.size(); ++i)
    if (runs[i].name.function == "argmax_kernel") ends.push_back(i);
  if (ends.size() < 2) throw std::runtime_error("no tokens were traced");
  TracedTokens traced{{}, runs[ends[0]].end};
  for (std::size_t i = 1; i < ends.size(); ++i)
    traced.tokens.push_back({runs.subspan(ends[i - 1] + 1, ends[i] - ends[i - 1]),
                             cached - TokenCount(ends.size() - i)});
  return traced;
}

struct TokenRows {
  Rows rows;
  std::string unknown;  // why there are no bytes
};

// With bytes if those of all tokens are known.
TokenRows with_bytes(const Model& model, const TracedTokens& traced) {
  Rows rows(traced.begin);
  for (const TracedToken& token : traced.tokens) {
    const auto products = products_of_token(model, KvTypes{}, token.cached);
    if (!products) return {Rows(0), products.error().message};
    const auto matched = match(token.runs, *products);
    if (!matched) return {Rows(0), matched.error().message};
    rows.add(token.runs, *matched);
  }
  return {std::move(rows), {}};
}

TokenRows rows_of(const Model& model, const TracedTokens& traced) {
  TokenRows known = with_bytes(model, traced);
  if (known.unknown.empty()) return known;
  known.rows = Rows(traced.begin);
  for (const TracedToken& token : traced.tokens) known.rows.add(token.runs, {});
  return known;
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
  const auto& at = request(executor, depth, nullptr).tokens.at_s;
  const double seconds = (at.back() - at.front()) / double(kOutput - 1);
  request(executor, depth, &bench.trace);
  const std::vector<KernelRun> runs = bench.trace.end();
  const TracedTokens traced = tokens_of(runs, executor.cached());
  const TokenRows found = rows_of(executor.model(), traced);
  const auto times = int(traced.tokens.size());
  fmt::print("{}, a token after {}\n", name, depth);
  print(found.rows, {times, found.rows.ns(), bench.memory, "us/token"});
  const double traced_s = found.rows.ns() / times / 1e9;
  if (found.unknown.empty())
    fmt::print("{}\n\n",
               text(TokenTotal{found.rows.bytes() / times, seconds, traced_s, bench.memory}));
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
  const auto executor = make_synthetic_cuda_executor(*spec, *table, 1, {});
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
