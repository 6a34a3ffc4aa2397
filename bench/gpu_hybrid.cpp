// Tokens per second of models that GPU and host share, beside what the host's memory gives.
//   bench_gpu_hybrid [NAME...]     rows whose name holds one of the words; all without one, and
//   what
//                                  a handoff takes
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "bench/gpu_handoff.cuh"
#include "core/catalogue.hpp"
#include "engine/runtime/cuda_executor.hpp"
#include "engine/runtime/request.hpp"
#include "probe/dram_read.hpp"

using namespace rigcast;
using namespace rigcast::engine;

namespace {

enum class Share { kLayers, kCache, kCold, kExperts };

constexpr double kMeasured = -1;

struct Row {
  const char* name;
  const char* model;
  Share share;
  int gpu_layers;  // of layers + 1, for kLayers
  TokenCount depth;
  double bar;                 // tokens/s; 0: none
  TokenCount hot_tokens = 0;  // for kCold
  double host_share = 0;      // of what is not hot
};

constexpr Row kRows[] = {
    {"8B, 33 of 33 on the GPU", "llama-3.1-8b", Share::kLayers, 33, 496, 0},
    {"8B, head and 24 layers", "llama-3.1-8b", Share::kLayers, 24, 496, 0},
    {"8B, head and 16 layers", "llama-3.1-8b", Share::kLayers, 16, 496, 0},
    {"8B, head and 8 layers", "llama-3.1-8b", Share::kLayers, 8, 496, 0},
    {"8B, nothing", "llama-3.1-8b", Share::kLayers, 0, 496, 0},
    {"8B, KV ram 16k", "llama-3.1-8b", Share::kCache, 33, 16368, 24},
    {"8B, KV ram 16k, as cold blocks", "llama-3.1-8b", Share::kCold, 33, 16368, 24, 0, 1},
    {"8B, KV stream 16k", "llama-3.1-8b", Share::kCold, 33, 16368, 20},
    {"8B, KV combined 16k", "llama-3.1-8b", Share::kCold, 33, 16368, 32, 0, kMeasured},
    {"8B, KV combined 16k, 0.4", "llama-3.1-8b", Share::kCold, 33, 16368, 32, 0, 0.4},
    {"8B, KV combined 16k, 0.6", "llama-3.1-8b", Share::kCold, 33, 16368, 32, 0, 0.6},
    {"8B, KV combined 16k, 0.8", "llama-3.1-8b", Share::kCold, 33, 16368, 32, 0, 0.8},
    {"8B, KV vram 32k", "llama-3.1-8b", Share::kLayers, 33, 32752, 0},
    {"8B, KV paged 32k, 1 % cold", "llama-3.1-8b", Share::kCold, 33, 32752, 0, 32384},
    {"8B, KV paged 32k, half cold", "llama-3.1-8b", Share::kCold, 33, 32752, 0, 16384},
    {"30B-A3B, experts in RAM", "qwen3-30b-a3b", Share::kExperts, 49, 496, 60},
};
constexpr int kRuns = 3;
constexpr TokenCount kPrompt = 4, kOutput = 24;

// Layers at the end are the GPU's, and the head wherever there is one.
Placement placement_of(const Row& row, const ModelSpec& spec) {
  Placement p;
  p.gpu_layers = row.gpu_layers;
  for (int i = 0; i < spec.layers; ++i) {
    const DeviceIndex d = i >= spec.layers - row.gpu_layers ? 0 : kHost;
    LayerPlacement l{d, d, d, d, d, d, d};
    if (row.share == Share::kCache) l.kv = l.decode_cache_on = kHost;
    if (row.share == Share::kExperts) l.experts = l.decode_experts_on = kHost;
    p.layers.push_back(l);
  }
  p.head = p.head_on = row.gpu_layers > 0 ? 0 : kHost;
  return p;
}

double median(std::vector<double> v) {
  std::ranges::nth_element(v, v.begin() + std::ptrdiff_t(v.size() / 2));
  return v[v.size() / 2];
}

Result<std::unique_ptr<Executor>> executor_of(const Row& row, const Catalogue& catalogue,
                                              int threads) {
  const auto spec = catalogue.model(row.model);
  if (!spec) return spec.error();
  const auto table = make_tensor_table(*spec, *QuantMix::from_name("Q4_K_M"));
  if (!table) return table.error();
  CudaOptions options;
  options.placement = placement_of(row, *spec);
  options.threads = threads;
  if (row.share == Share::kCold) options.hot_tokens = row.hot_tokens;
  options.host_share = row.host_share == kMeasured ? std::nullopt : std::optional(row.host_share);
  return make_synthetic_cuda_executor(*spec, *table, 1, options);
}

void run(const Row& row, Executor& executor, double dram) {
  const auto prompt = random_prompt(kPrompt, executor.model().spec.vocabulary, 1);
  std::vector<double> speeds;
  for (int i = 0; i <= kRuns; ++i) {
    executor.truncate(0);
    executor.fill(row.depth);
    Sampler sampler({});
    const RequestTimes r = run_request(executor, prompt, kOutput, sampler);
    if (i == 0) continue;  // buffers, clocks, graphs
    speeds.push_back(double(kOutput - 1) / (r.tokens.at_s.back() - r.tokens.at_s.front()));
  }
  const double speed = median(speeds);
  fmt::print("{:<32}{:>8.1f} tok/s {:>8.3f} ms, spread {:.1f} %", row.name, speed, 1e3 / speed,
             100 * (*std::ranges::max_element(speeds) / speed - 1));
  if (row.bar > 0) fmt::print(", bar {:.0f}: {}", row.bar, speed >= row.bar ? "ok" : "MISSED");
  fmt::print(", memory reads {:.1f} GB/s\n", dram / 1e9);
  std::fflush(stdout);
}

bool is_wanted(const Row& row, int argc, char** argv) {
  return argc < 2 || std::any_of(argv + 1, argv + argc, [&](const char* word) {
           return std::string_view(row.name).find(word) != std::string_view::npos;
         });
}

}  // namespace

int main(int argc, char** argv) {
  const char* data = std::getenv("RIGCAST_DATA");  // where the build is not at home
  const Catalogue catalogue{data ? data : RIGCAST_SOURCE_DIR};
  const int threads = int(std::max(1u, std::thread::hardware_concurrency()));
  double dram = 0;
  {
    Team team(threads);
    dram = probe::dram_read(team).median;
  }
  if (argc < 2) {
    for (const int floats : {2048, 4096, 8192})
      fmt::print("{} floats to the host and back: {:.1f} us\n", floats,
                 1e6 * bench::handoff_seconds(floats));
  }
  for (const Row& row : kRows) {
    if (!is_wanted(row, argc, argv)) continue;
    auto executor = executor_of(row, catalogue, threads);
    if (!executor) {
      fmt::print("{:<32} {}\n", row.name, executor.error().text());
      continue;
    }
    run(row, **executor, dram);
  }
}
