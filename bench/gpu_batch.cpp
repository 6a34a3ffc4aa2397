// Tokens per second of many sequences that decode together on a GPU, beside the time in which its
// memory could deliver what a step reads; and what parts of a step take when they are traced one
// after the other, which is longer in all.
//   bench_gpu_batch [MODEL [QUANT [CACHED [SEQUENCES [vram|stream|experts]]]]]
// Default: llama-3.1-8b Q4_K_M 512, 1 to 256 sequences (0 stands for these), vram. With stream all
// blocks are in the host's memory: the floor is that of the link, where this is higher. With
// experts in place of KV the experts are there, and the host computes them: the floor is the time
// of reading those that a step's tokens were routed to, each once, and of the GPU's own attention
// and head.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "bench/engine/host_reads.hpp"
#include "bench/engine/model_arguments.hpp"
#include "core/base/quantile.hpp"
#include "engine/backends/cuda/make_cuda_executor.hpp"
#include "engine/run/request.hpp"
#include "probe/gpu.hpp"
#include "probe/gpu/measure_gpus.hpp"

using namespace rigcast;
using namespace rigcast::engine;

namespace {

constexpr int kSequences[] = {1, 2, 4, 8, 16, 32, 48, 64, 128, 256};
constexpr TokenCount kServedBlock = 32;  // of rigcast's own server
constexpr int kColdTokens = 64 * 1024;   // of the pool in the host's memory
constexpr int kWarmups = 8, kSteps = 48, kTracedSteps = 7;

struct Sequence {
  std::vector<int> blocks;
  TokenCount cached = 0;
  std::int32_t last = 1;
};

// Gives every sequence its own blocks, and a random prompt. Blocks lie as those of sequences that
// grow side by side: a sequence's next one is as many further as there are sequences.
void prefill(BatchExecutor& executor, std::vector<Sequence>& sequences, TokenCount tokens) {
  const BatchLimits limits = executor.limits();
  const auto vocabulary = executor.model().spec.vocabulary;
  const TokenCount room = tokens + kWarmups + kSteps;
  const int blocks = int((room + limits.block_tokens - 1) / limits.block_tokens);
  for (std::size_t i = 0; i < sequences.size(); ++i) {
    Sequence& s = sequences[i];
    s.blocks.clear();
    for (int b = 0; b < blocks; ++b) s.blocks.push_back(b * int(sequences.size()) + int(i));
    const auto prompt = random_prompt(tokens, vocabulary, std::uint64_t(i) + 1);
    for (s.cached = 0; s.cached < tokens;) {
      const TokenCount now = std::min(limits.step_tokens, tokens - s.cached);
      const SequenceStep step{std::span(prompt).subspan(std::size_t(s.cached), std::size_t(now)),
                              s.cached, s.blocks};
      static_cast<void>(executor.step({&step, 1}));
      s.cached += now;
    }
  }
}

// The median time of a step, and the bytes that it reads and that are copied to the GPU.
struct StepTime {
  double seconds = 0, bytes = 0, copied = 0;
  double of_host = 0;  // of the bytes, those that the host reads
};

std::vector<SequenceStep> next_steps(std::vector<Sequence>& sequences,
                                     std::vector<Sampler>& samplers) {
  std::vector<SequenceStep> steps(sequences.size());
  for (std::size_t s = 0; s < sequences.size(); ++s)
    steps[s] = {{&sequences[s].last, 1}, sequences[s].cached, sequences[s].blocks, &samplers[s]};
  return steps;
}

StepTime timed(BatchExecutor& executor, std::vector<Sequence>& sequences) {
  std::vector<Sampler> samplers(sequences.size(), Sampler({}));
  std::vector<double> seconds;
  double bytes = 0, copied = 0, of_host = 0;
  for (int i = 0; i < kWarmups + kSteps; ++i) {
    const auto steps = next_steps(sequences, samplers);
    const auto begin = std::chrono::steady_clock::now();
    const auto ids = executor.step(steps);
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    const MovedBytes moved = executor.take_bytes();
    if (i >= kWarmups) seconds.push_back(took.count());
    bytes = moved.weights + moved.kv_read;
    copied = moved.to_gpu;
    of_host += i < kWarmups ? 0 : moved.on_host / kSteps;
    for (std::size_t s = 0; s < sequences.size(); ++s) {
      sequences[s].last = std::max(ids[s], 0);
      ++sequences[s].cached;
    }
  }
  return {median(seconds), bytes, copied, of_host};
}

// Median milliseconds of a traced step's attention, FFN and experts, head, and copies of blocks.
struct StageTimes {
  double attention = 0, ffn = 0, head = 0, copies = 0;
};

StageTimes traced(BatchExecutor& executor, std::vector<Sequence>& sequences) {
  std::vector<Sampler> samplers(sequences.size(), Sampler({}));
  std::vector<double> attention, ffn, head, copies;
  for (int i = 0; i < kTracedSteps; ++i) {
    Recorder recorder;
    executor.record_into(&recorder);
    static_cast<void>(executor.step(next_steps(sequences, samplers)));
    executor.record_into(nullptr);
    const auto sum = [&](ActivityKind kind) {
      double ms = 0;
      for (const TraceEvent& e : recorder.events())
        if (e.kind == kind) ms += 1e3 * (e.finish_s - e.start_s);
      return ms;
    };
    attention.push_back(sum(ActivityKind::kAttention));
    ffn.push_back(sum(ActivityKind::kFfn) + sum(ActivityKind::kExperts));
    head.push_back(sum(ActivityKind::kHead));
    copies.push_back(sum(ActivityKind::kFetchKv));
  }
  return {median(attention), median(ffn), median(head), median(copies)};
}

// All on the GPU but the experts.
Placement experts_on_host(const ModelSpec& spec) {
  Placement p;
  p.gpu_layers = spec.layers + 1;
  p.layers.assign(std::size_t(spec.layers), LayerPlacement{});
  for (int l = 0; l < spec.layers; ++l) {
    LayerPlacement& at = p.layers[std::size_t(l)];
    at = {0, 0, 0, 0, 0, 0, 0};
    if (spec.is_moe_layer(l)) at.experts = at.decode_experts_on = kHost;
  }
  p.head = p.head_on = 0;
  return p;
}

// Bytes of one expert, the mean of all layers that have some.
double bytes_of_expert(const bench::BenchModel& model) {
  double bytes = 0, experts = 0;
  for (int l = 0; l < model.spec.layers; ++l) {
    if (!model.spec.is_moe_layer(l)) continue;
    bytes += double(model.tensors.layers[std::size_t(l)].experts.bytes());
    experts += model.spec.moe->experts;
  }
  return experts > 0 ? bytes / experts : 0;
}

int layers_with_experts(const ModelSpec& spec) {
  int layers = 0;
  for (int l = 0; l < spec.layers; ++l) layers += spec.is_moe_layer(l) ? 1 : 0;
  return layers;
}

}  // namespace

int main(int argc, char** argv) {
  const auto model = bench::model_of_arguments(argc, argv);
  if (!model) return 2;
  const TokenCount cached = argc > 3 ? std::atoll(argv[3]) : 512;
  const probe::Gpus gpus = probe::measure_gpus([](const std::string&) {});
  if (gpus.found.empty()) {
    fmt::print("no GPU: {}\n", gpus.none);
    return 1;
  }
  const double memory = gpus.found.front().vram_read.median,
               link = gpus.found.front().copies.h2d_pinned.bytes_per_s.median;
  ExecutorOptions options;
  BatchOptions batch{.step_sequences = 256};
  const std::string kind = argc > 5 ? argv[5] : "vram";
  const bool on_host = kind == "experts";
  if (!on_host && kind != "vram" && kind != "stream") {
    fmt::print("{}: expected vram, stream or experts\n", kind);
    return 2;
  }
  if (on_host && !model->spec.moe) {
    fmt::print("{} has no experts\n", model->name);
    return 2;
  }
  if (on_host) options.placement = experts_on_host(model->spec);
  options.threads = int(std::max(1u, std::thread::hardware_concurrency()));
  const double host = on_host ? bench::HostReads(options.threads).rate() : 0;
  if (kind == "stream") {
    options.kv_block = kServedBlock;
    options.kv_eviction = KvEviction{.hot_tokens = 0};
    batch.blocks = kColdTokens / int(kServedBlock);
  }
  auto executor =
      make_synthetic_cuda_batch_executor(model->spec, model->tensors, 1, options, batch);
  if (!executor) {
    fmt::print("{}\n", executor.error().text());
    return 1;
  }
  fmt::print("{}, memory reads {:.0f} GB/s; {}, {} cached tokens each\n\n", gpus.found.front().name,
             memory / 1e9, model->name, cached);
  fmt::print("{:>9}{:>12}{:>12}{:>10}{:>10}{:>11}{:>8}{:>8}{:>8}\n", "sequences", "tok/s",
             "ms/step", "floor ms", "of floor", "attention", "ffn", "head", "copies");
  std::vector<int> counts(std::begin(kSequences), std::end(kSequences));
  if (argc > 4 && std::atoi(argv[4]) > 0) counts = {std::clamp(std::atoi(argv[4]), 1, 256)};
  for (const int count : counts) {
    const BatchLimits limits = (*executor)->limits();
    const TokenCount room = cached + kWarmups + kSteps;
    if (count * ((room + limits.block_tokens - 1) / limits.block_tokens) > limits.blocks) break;
    std::vector<Sequence> sequences(static_cast<std::size_t>(count));
    prefill(**executor, sequences, cached);
    const StepTime t = timed(**executor, sequences);
    const StageTimes stages = traced(**executor, sequences);
    const double gpus_own = 1e-3 * (stages.attention + stages.head);
    const double floor =
        on_host ? t.of_host / host + gpus_own : std::max(t.bytes / memory, t.copied / link);
    fmt::print("{:>9}{:>12.0f}{:>12.3f}{:>10.3f}{:>9.2f}x{:>11.3f}{:>8.3f}{:>8.3f}{:>8.3f}\n",
               count, count / t.seconds, 1e3 * t.seconds, 1e3 * floor, t.seconds / floor,
               stages.attention, stages.ffn, stages.head, stages.copies);
    if (on_host)
      fmt::print("{:>9} of {} experts in each layer, {:.2f} GB at {:.0f} GB/s\n",
                 fmt::format("{:.1f}", t.of_host / bytes_of_expert(*model) /
                                           layers_with_experts(model->spec)),
                 model->spec.moe->experts, t.of_host / 1e9, host / 1e9);
    std::fflush(stdout);
  }
}
