// Steps of a server that compute a prompt, alone and beside sequences that decode: the first step
// of a length, which may load or choose kernels, and those after it, beside as many tokens by an
// executor of one sequence.
//   bench_gpu_prompt_steps [MODEL [QUANT [TOKENS...]]]
// Default: llama-3.1-8b Q4_K_M, 65 to 512 tokens, the odd ones of requests among them.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <optional>
#include <vector>

#include "bench/engine/model_arguments.hpp"
#include "core/base/quantile.hpp"
#include "engine/backends/cuda/make_cuda_executor.hpp"
#include "engine/run/request.hpp"

using namespace rigcast;
using namespace rigcast::engine;

namespace {

constexpr TokenCount kTokens[] = {65, 96, 128, 155, 200, 256, 300, 371, 384, 448, 500, 511, 512};
constexpr int kBeside[] = {0, 1, 8, 32};
constexpr TokenCount kCached = 256;  // of each sequence that decodes
constexpr int kRepeats = 7;

struct Times {
  double first = 0, later = 0;  // milliseconds
};

template <class Work>
Times timed(const Work& work) {
  std::vector<double> ms;
  for (int i = 0; i < kRepeats; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    work();
    const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - begin;
    ms.push_back(took.count());
  }
  const double first = ms.front();
  ms.erase(ms.begin());
  return {first, median(ms)};
}

std::vector<int> own_blocks(const BatchLimits& limits, int& next, TokenCount tokens) {
  std::vector<int> blocks(
      static_cast<std::size_t>((tokens + limits.block_tokens - 1) / limits.block_tokens));
  for (int& block : blocks) block = next++;
  return blocks;
}

// A prompt's step beside `count` sequences that decode.
Times step_beside(BatchExecutor& executor, int count, TokenCount tokens) {
  const BatchLimits limits = executor.limits();
  const auto vocabulary = executor.model().spec.vocabulary;
  int next = 0;
  const auto prompt = random_prompt(std::max(tokens, kCached), vocabulary, 7);
  const std::span all(prompt);
  std::vector<std::vector<int>> blocks;
  std::vector<Sampler> samplers(std::size_t(count) + 1, Sampler({}));
  std::vector<SequenceStep> steps;
  for (int s = 0; s < count; ++s) {
    blocks.push_back(own_blocks(limits, next, kCached + 1));
    const SequenceStep fill{all.first(std::size_t(kCached)), 0, blocks.back()};
    static_cast<void>(executor.step({&fill, 1}));
  }
  for (int s = 0; s < count; ++s)
    steps.push_back({all.first(1), kCached, blocks[std::size_t(s)], &samplers[std::size_t(s)]});
  const std::vector<int> own = own_blocks(limits, next, tokens);
  steps.push_back({all.first(std::size_t(tokens)), 0, own, &samplers.back()});
  return timed([&] { static_cast<void>(executor.step(steps)); });
}

// The same prompts by an executor of one sequence: the median time of each, in milliseconds.
std::optional<std::vector<double>> times_alone(const ModelSpec& spec, const TensorTable& tensors,
                                               const std::vector<TokenCount>& lengths) {
  auto executor = make_synthetic_cuda_executor(spec, tensors, 1, {});
  if (!executor) {
    fmt::print("{}\n", executor.error().text());
    return std::nullopt;
  }
  std::vector<double> out;
  for (const TokenCount tokens : lengths) {
    const auto prompt = random_prompt(tokens, spec.vocabulary, 7);
    out.push_back(timed([&] {
                    (*executor)->truncate(0);
                    static_cast<void>((*executor)->forward(prompt, Logits::kLast));
                  }).later);
  }
  return out;
}

void print_header(const bench::BenchModel& model) {
  fmt::print("{} {}, ms\n\n{:>7}{:>9}", model.name, model.mix.name(), "tokens", "alone");
  for (const int count : kBeside) fmt::print("{:>16}", fmt::format("beside {}", count));
  fmt::print("\n{:>16}", "");
  for (std::size_t i = 0; i < std::size(kBeside); ++i) fmt::print("{:>8}{:>8}", "first", "later");
  fmt::print("\n");
}

void print_row(BatchExecutor& executor, TokenCount length, double alone) {
  fmt::print("{:>7}{:>9.2f}", length, alone);
  for (const int count : kBeside) {
    const TokenCount tokens = std::min(length, executor.limits().step_tokens - count);
    const Times t = step_beside(executor, count, tokens);
    fmt::print("{:>8.2f}{:>8.2f}", t.first, t.later);
    std::fflush(stdout);
  }
  fmt::print("\n");
}

std::vector<TokenCount> lengths_of(int argc, char** argv) {
  if (argc <= 3) return {std::begin(kTokens), std::end(kTokens)};
  std::vector<TokenCount> out;
  for (int i = 3; i < argc; ++i) out.push_back(std::clamp<TokenCount>(std::atoll(argv[i]), 2, 512));
  return out;
}

}  // namespace

int main(int argc, char** argv) {
  const auto model = bench::model_of_arguments(argc, argv);
  if (!model) return 2;
  const std::vector<TokenCount> lengths = lengths_of(argc, argv);
  const auto alone = times_alone(model->spec, model->tensors, lengths);
  if (!alone) return 1;
  auto executor = make_synthetic_cuda_batch_executor(model->spec, model->tensors, 1, {},
                                                     {.step_sequences = 256});
  if (!executor) {
    fmt::print("{}\n", executor.error().text());
    return 1;
  }
  print_header(*model);
  for (std::size_t i = 0; i < lengths.size(); ++i) print_row(**executor, lengths[i], (*alone)[i]);
}
