// Tokens per second of whole models on a GPU, relative to its memory's rate, and the ceiling that
// the bytes of a token set.
//   bench_gpu_engine [NAME...]     rows whose name contains one of the words; without one all rows
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <vector>

#include "core/base/quantile.hpp"
#include "core/catalogue/catalogue.hpp"
#include "engine/backends/cuda/make_cuda_executor.hpp"
#include "engine/run/request.hpp"
#include "probe/gpu.hpp"
#include "probe/gpu/measure_gpus.hpp"

using namespace rigcast;
using namespace rigcast::engine;

namespace {

struct Row {
  const char* model;
  const char* quant;
  TokenCount prompt = 16, depth = 0;
  TokenCount output = 64;
  double bar = 0, stretch = 0;  // tokens/s, of the prompt where no more than two tokens follow it
  TokenCount ubatch = 512;

  bool is_prefill() const { return output <= 2; }
  std::string name() const {
    return fmt::format("{} {} {} {}", model, quant, is_prefill() ? "prefill" : "decode",
                       is_prefill() ? prompt : depth + prompt);
  }
};

// Bars of an H200.
constexpr Row kRows[] = {
    {"llama-3.1-8b", "Q4_K_M", 16, 496, 128, 480, 650},
    {"llama-3.1-8b", "Q4_K_M", 16, 32752, 64, 250, 330},
    {"llama-3.1-8b", "Q4_K_M", 4, 0, 2},
    {"llama-3.1-8b", "Q4_K_M", 16, 0, 2},
    {"llama-3.1-8b", "Q4_K_M", 64, 0, 2, 14000},
    {"llama-3.1-8b", "Q4_K_M", 512, 0, 2, 32000},
    {"llama-3.1-8b", "Q4_K_M", 4096, 0, 2, 20000, 40000, 4096},
    {"llama-3.1-8b", "Q8_0", 16, 496, 128, 380, 450},
    {"llama-3.1-8b", "F16", 16, 496, 128, 235, 260},
    {"llama-3.2-1b", "F16", 16, 496, 128, 900, 1300},
    {"gemma-3-12b", "Q4_K_M", 16, 496, 64, 250},
    {"qwen2.5-32b", "Q4_K_M", 16, 496, 64, 140, 170},
    {"qwen3-30b-a3b", "Q4_K_M", 16, 496, 64, 300, 450},
    {"qwen3-30b-a3b", "Q4_K_M", 16, 0, 2},
    {"qwen3-30b-a3b", "Q4_K_M", 512, 0, 2},
    {"deepseek-v2-lite", "Q4_K_M", 16, 496, 64, 350},
    {"qwen3-next-80b-a3b", "Q4_K_M", 16, 496, 64, 180},
    {"qwen3.5-9b", "Q4_K_M", 16, 496, 64},
    {"gemma-4-12b", "Q4_K_M", 16, 496, 64},
    {"gpt-oss-20b", "MXFP4", 16, 496, 64, 350, 600},
    {"gpt-oss-20b", "MXFP4", 16, 32752, 64},
    {"gpt-oss-20b", "MXFP4", 16, 0, 2},
    {"gpt-oss-20b", "MXFP4", 512, 0, 2},
};
constexpr int kRuns = 5;

struct Figures {
  double tokens_per_s = 0, spread = 0;
  double bytes_per_s = 0;
};

Figures timed(Executor& executor, const Row& row) {
  const auto prompt = random_prompt(row.prompt, executor.model().spec.vocabulary, 1);
  std::vector<double> speeds, rates;
  for (int run = 0; run <= kRuns; ++run) {
    executor.truncate(0);
    executor.fill(row.depth);
    Sampler sampler({});
    const RequestTimes r = run_request(executor, prompt, row.output, sampler);
    if (run == 0) continue;  // the first run prepares buffers, clocks and graphs
    const double decode = r.tokens.at_s.back() - r.tokens.at_s.front();
    speeds.push_back(row.is_prefill() ? double(row.prompt) / r.prefill.value
                                      : double(row.output - 1) / decode);
    rates.push_back((r.decode_bytes.weights + r.decode_bytes.kv_read) / decode);
  }
  const auto [low, high] = std::ranges::minmax_element(speeds);
  return {median(speeds), (*high - *low) / median(speeds), median(rates)};
}

Result<std::unique_ptr<Executor>> executor_of(const Row& row, const Catalogue& catalogue) {
  const auto spec = catalogue.model(row.model);
  if (!spec) return spec.error();
  const auto table = make_tensor_table(*spec, *QuantMix::from_name(row.quant));
  if (!table) return table.error();
  ExecutorOptions options;
  options.ubatch = row.ubatch;
  return make_synthetic_cuda_executor(*spec, *table, 1, options);
}

std::string against_bar(const Row& row, double speed) {
  if (row.bar == 0) return "";
  const char* text = speed < row.bar ? "MISSED" : speed < row.stretch ? "ok" : "stretch";
  return fmt::format("{:>8.0f} {:>5.2f} {}", row.bar, speed / row.bar, text);
}

void print(const Row& row, const Figures& f, double memory) {
  fmt::print("{:<36}{:>9.0f} tok/s {:>4.1f} %  {:<22}", row.name(), f.tokens_per_s, 100 * f.spread,
             against_bar(row, f.tokens_per_s));
  if (row.is_prefill())
    fmt::print("\n");
  else
    fmt::print("{:>7.0f} GB/s {:>5.2f} of {:.0f}, {:>6.0f} MB a token: at most {:.0f} tok/s\n",
               f.bytes_per_s / 1e9, f.bytes_per_s / memory, memory / 1e9,
               f.bytes_per_s / f.tokens_per_s / 1e6, memory / f.bytes_per_s * f.tokens_per_s);
  std::fflush(stdout);
}

bool is_wanted(const Row& row, int argc, char** argv) {
  const std::string name = row.name();
  return argc < 2 || std::any_of(argv + 1, argv + argc, [&](const char* word) {
           return name.find(word) != std::string::npos;
         });
}

}  // namespace

int main(int argc, char** argv) {
  const char* data = std::getenv("RIGCAST_DATA");  // for a build that was moved to another machine
  const Catalogue catalogue{data ? data : RIGCAST_SOURCE_DIR};
  const probe::Gpus gpus = probe::measure_gpus([](const std::string&) {});
  if (gpus.found.empty()) {
    fmt::print("no GPU: {}\n", gpus.none);
    return 1;
  }
  const double memory = gpus.found.front().vram_read.median;
  fmt::print("{}, memory reads {:.0f} GB/s, median of {} runs\n\n", gpus.found.front().name,
             memory / 1e9, kRuns);
  fmt::print("{:<36}{:>15} {:>6}  {:>8} {:>5}\n", "", "", "spread", "bar", "ratio");
  for (const Row& row : kRows) {
    if (!is_wanted(row, argc, argv)) continue;
    auto executor = executor_of(row, catalogue);
    if (!executor) {
      fmt::print("{:<36} {}\n", row.name(), executor.error().text());
      continue;
    }
    print(row, timed(**executor, row), memory);
  }
}
