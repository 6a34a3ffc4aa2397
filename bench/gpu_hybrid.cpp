// Tokens per second of models that are split between GPU and host, relative to the host's memory;
// and of models whose weights are streamed, relative to the link, and to a GPU that holds them.
//   bench_gpu_hybrid [NAME...]     rows whose name contains one of the words; without one all rows,
//                                  and the time of a handoff
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "bench/engine/host_reads.hpp"
#include "bench/gpu_handoff.cuh"
#include "core/base/quantile.hpp"
#include "core/catalogue/catalogue.hpp"
#include "engine/backends/cuda/make_cuda_executor.hpp"
#include "engine/cuda/cuda_stream.cuh"
#include "engine/cuda/memory/pinned_pages.cuh"
#include "engine/cuda/memory/vram.cuh"
#include "engine/model/layer_weights.hpp"
#include "engine/run/request.hpp"

using namespace rigcast;
using namespace rigcast::engine;

namespace {

enum class Share { kLayers, kCache, kCold, kExperts };

constexpr double kMeasured = -1;
constexpr int kNone = -1;
constexpr TokenCount kBlocks = 129;  // output during which blocks are evicted at the usual rate

struct Row {
  const char* name;
  const char* model;
  Share share;
  int gpu_layers;  // the last ones, and the head; kNone: not even that
  TokenCount depth;
  double bar;                 // tokens/s; 0: none
  TokenCount hot_tokens = 0;  // for kCold
  double host_share = 0;      // the host's share of cold blocks
  TokenCount output = 24;
};

constexpr Row kLayerRows[] = {
    {"8B, all on the GPU", "llama-3.1-8b", Share::kLayers, 32, 496, 0},
    {"8B, head and 24 layers", "llama-3.1-8b", Share::kLayers, 24, 496, 0},
    {"8B, head and 16 layers", "llama-3.1-8b", Share::kLayers, 16, 496, 0},
    {"8B, head and 8 layers", "llama-3.1-8b", Share::kLayers, 8, 496, 0},
    {"8B, head alone", "llama-3.1-8b", Share::kLayers, 0, 496, 0},
    {"8B, nothing", "llama-3.1-8b", Share::kLayers, kNone, 496, 0},
};
constexpr Row kCacheRows[] = {
    {"8B, KV ram 16k", "llama-3.1-8b", Share::kCache, 32, 16368, 24},
    {"8B, KV ram 16k, as cold blocks", "llama-3.1-8b", Share::kCold, 32, 16368, 24, 0, 1},
    {"8B, KV stream 16k", "llama-3.1-8b", Share::kCold, 32, 16368, 20},
    {"8B, KV combined 16k", "llama-3.1-8b", Share::kCold, 32, 16368, 32, 0, kMeasured},
    {"8B, KV combined 16k, 0.6", "llama-3.1-8b", Share::kCold, 32, 16368, 32, 0, 0.6},
    {"8B, KV combined 16k, 0.7", "llama-3.1-8b", Share::kCold, 32, 16368, 32, 0, 0.7},
};
constexpr Row kPagedRows[] = {
    {"8B, KV vram 32k", "llama-3.1-8b", Share::kLayers, 32, 32752, 0, 0, 0, kBlocks},
    {"8B, KV paged 32k, 1 % cold", "llama-3.1-8b", Share::kCold, 32, 32752, 0, 32384, 0, kBlocks},
    {"8B, KV paged 32k, half cold", "llama-3.1-8b", Share::kCold, 32, 32752, 0, 16384},
};
constexpr Row kExpertRows[] = {
    {"30B-A3B, experts in RAM", "qwen3-30b-a3b", Share::kExperts, 48, 496, 60},
};
// The load of the machine varies, so rows of a group run alternately, and are compared within every
// round.
constexpr std::span<const Row> kGroups[] = {kLayerRows, kCacheRows, kPagedRows, kExpertRows};
constexpr int kRuns = 7;
// The threads of a row spin for a while after its run; this pause keeps that out of the next run.
constexpr std::chrono::milliseconds kPause{30};
constexpr TokenCount kPrompt = 4;

// The placement of a row: the last layers on the GPU, and the head if there are any.
Placement placement_of(const Row& row, const ModelSpec& spec) {
  Placement p;
  p.gpu_layers = std::max(0, row.gpu_layers);
  for (int i = 0; i < spec.layers; ++i) {
    const DeviceIndex d = i >= spec.layers - row.gpu_layers ? 0 : kHost;
    LayerPlacement l{d, d, d, d, d, d, d};
    if (row.share == Share::kCache) l.kv = l.decode_cache_on = kHost;
    if (row.share == Share::kExperts) l.experts = l.decode_experts_on = kHost;
    p.layers.push_back(l);
  }
  p.head = p.head_on = row.gpu_layers == kNone ? kHost : 0;
  return p;
}

Result<std::unique_ptr<Executor>> executor_of(const Row& row, const Catalogue& catalogue,
                                              int threads) {
  const auto spec = catalogue.model(row.model);
  if (!spec) return spec.error();
  const auto table = make_tensor_table(*spec, *QuantMix::from_name("Q4_K_M"));
  if (!table) return table.error();
  ExecutorOptions options;
  options.placement = placement_of(row, *spec);
  options.threads = threads;
  if (row.share == Share::kCold) options.kv_eviction = KvEviction{.hot_tokens = row.hot_tokens};
  options.host_share = row.host_share == kMeasured ? std::nullopt : std::optional(row.host_share);
  return make_synthetic_cuda_executor(*spec, *table, 1, options);
}

// Results of every round: seconds per token by row name; bytes per second at which all threads read
// the layers that a row has in the host's memory, and a buffer that exceeds all caches.
struct Table {
  std::map<std::string, std::vector<double>> tokens, own_reads;
  std::vector<double> reads;
};

double timed_run(const Row& row, Executor& executor) {
  executor.truncate(0);
  executor.fill(row.depth);
  Sampler sampler({});
  const auto prompt = random_prompt(kPrompt, executor.model().spec.vocabulary, 1);
  const RequestTimes r = run_request(executor, prompt, row.output, sampler);
  return (r.tokens.at_s.back() - r.tokens.at_s.front()) / double(row.output - 1);
}

// One row's runs.
struct Runs {
  const Row* row;
  std::unique_ptr<Executor> executor;
  std::vector<double> tokens{};  // seconds

  void one_more(bool counts) {
    const double token = timed_run(*row, *executor);
    if (counts) tokens.push_back(token);
  }
  void print() const {
    const double time = median(tokens), speed = 1 / time;
    fmt::print("{:<32}{:>8.1f} tok/s {:>8.3f} ms, spread {:.1f} %", row->name, speed, 1e3 * time,
               100 * (time / *std::ranges::min_element(tokens) - 1));
    if (row->bar > 0) fmt::print(", bar {:.0f}: {}", row->bar, speed >= row->bar ? "ok" : "MISSED");
    fmt::print("\n");
    std::fflush(stdout);
  }
};

// Matrices of the first layers; contiguous ones are merged.
std::vector<std::span<const std::byte>> memory_of_first(int layers, const Model& model) {
  std::vector<std::span<const std::byte>> all;
  for (int i = 0; i < layers; ++i) {
    const Layer& l = model.layers[std::size_t(i)];
    for_each_matrix(
        [&](LayerWeight, const Matrix& m) {
          if (m) all.emplace_back(m.data, std::size_t(m.bytes()));
        },
        l);
  }
  std::ranges::sort(all, {}, [](const auto& part) { return part.data(); });
  const auto address = [](const std::byte* p) { return reinterpret_cast<std::uintptr_t>(p); };
  std::vector<std::span<const std::byte>> joined;
  for (const auto& part : all) {
    constexpr std::uintptr_t kGap = 4096;
    if (!joined.empty() &&
        address(part.data()) - address(std::to_address(joined.back().end())) < kGap)
      joined.back() = {joined.back().data(), std::to_address(part.end())};
    else
      joined.push_back(part);
  }
  return joined;
}

// The number of layers that a row leaves to the host.
int host_layers(const Row& row, const ModelSpec& spec) {
  return row.share == Share::kLayers ? spec.layers - std::max(0, row.gpu_layers) : 0;
}

Table run(std::span<const Row* const> rows, const Catalogue& catalogue, int threads,
          bench::HostReads& reads) {
  std::vector<Runs> all;
  for (const Row* const row : rows) {
    auto executor = executor_of(*row, catalogue, threads);
    if (executor)
      all.push_back({row, std::move(*executor)});
    else
      fmt::print("{:<32} {}\n", row->name, executor.error().text());
  }
  Table table;
  for (int i = 0; i <= kRuns; ++i) {
    for (Runs& r : all) {
      r.one_more(i > 0);  // the first run prepares buffers, clocks and graphs
      std::this_thread::sleep_for(kPause);
      const Model& model = r.executor->model();
      if (const int layers = host_layers(*r.row, model.spec); i > 0 && layers > 0)
        table.own_reads[r.row->name].push_back(reads.rate(memory_of_first(layers, model)));
    }
    if (i > 0) table.reads.push_back(reads.rate());
  }
  for (const Runs& r : all) {
    r.print();
    table.tokens[r.row->name] = r.tokens;
  }
  return table;
}

bool is_wanted(std::string_view name, int argc, char** argv) {
  return argc < 2 || std::any_of(argv + 1, argv + argc, [&](const char* word) {
           return name.find(word) != std::string_view::npos;
         });
}

// A row with streamed weights: of the first layers for every token, or only for a prompt's batches,
// or of a prompt's experts.
struct CopiedRow {
  const char* name;
  const char* model;
  int streamed, offloadable, offloadable_experts;  // layers
  TokenCount prompt, ubatch;                       // 0 tokens: decoding is timed
  double bar;                                      // relative to the limit; 0: none
};
constexpr CopiedRow kCopiedRows[] = {
    {"8B, 8 of 32 streamed", "llama-3.1-8b", 8, 0, 0, 0, 512, 0.85},
    {"8B, all 32 streamed", "llama-3.1-8b", 32, 0, 0, 0, 512, 0},
    {"8B, 16 of 32 in RAM, prompt", "llama-3.1-8b", 0, 16, 0, 4096, 2048, 0.85},
    {"8B, all 32 in RAM, prompt", "llama-3.1-8b", 0, 32, 0, 4096, 2048, 0},
    {"30B-A3B, experts in RAM, prompt", "qwen3-30b-a3b", 0, 0, 48, 4096, 2048, 0},
};

// Bytes per second of copies from pinned pages, median of 7.
double pinned_rate() {
  constexpr std::size_t kBytes = 256 << 20;
  cuda::Vram vram(0, std::nullopt);
  const PinnedPages pages(kBytes);
  const cuda::VramPiece to = vram.allocate(kBytes, "bench");
  const Stream stream;
  std::vector<double> rates;
  for (int i = 0; i < 8; ++i) {
    const Event begin, end;
    begin.record(stream);
    RIGCAST_CUDA_CALL(
        cudaMemcpyAsync(to.as(), pages.data(), kBytes, cudaMemcpyHostToDevice, stream.get()));
    end.record(stream);
    end.wait();
    if (i > 0) rates.push_back(double(kBytes) / Event::seconds_between(begin, end));
  }
  return median(rates);
}

Result<std::unique_ptr<Executor>> executor_of(const CopiedRow& row, const Catalogue& catalogue,
                                              int threads, bool resident) {
  const auto spec = catalogue.model(row.model);
  if (!spec) return spec.error();
  const auto table = make_tensor_table(*spec, *QuantMix::from_name("Q4_K_M"));
  if (!table) return table.error();
  ExecutorOptions options;
  options.ubatch = row.ubatch;
  options.threads = threads;
  if (!resident) {
    Placement p;
    for (int i = 0; i < spec->layers; ++i) {
      LayerPlacement l{0, 0, 0, 0, 0, 0, 0};
      if (i < row.offloadable) l = {.prefill_on = 0};
      if (i < row.streamed) l.weights = l.experts = kHost;
      if (i < row.offloadable_experts) l.experts = l.decode_experts_on = kHost;
      p.layers.push_back(l);
    }
    p.head = p.head_on = 0;
    options.placement = p;
  }
  return make_synthetic_cuda_executor(*spec, *table, 1, options);
}

struct Timed {
  double seconds = 0;  // per token, or for the prompt
  double copied = 0;   // bytes, over the link to the GPU
};

Timed timed_prompt(const CopiedRow& row, Executor& executor) {
  const auto prompt = random_prompt(row.prompt, executor.model().spec.vocabulary, 1);
  std::vector<double> times;
  Timed t;
  for (int i = 0; i <= 5; ++i) {
    executor.truncate(0);
    executor.take_bytes();
    const auto begin = std::chrono::steady_clock::now();
    executor.forward(prompt, Logits::kLast);
    const std::chrono::duration<double> time = std::chrono::steady_clock::now() - begin;
    t.copied = executor.take_bytes().to_gpu;
    if (i > 0) times.push_back(time.count());  // the first run prepares buffers and clocks
  }
  t.seconds = median(times);
  return t;
}

Timed timed_tokens(Executor& executor) {
  constexpr int kTokens = 24;
  executor.fill(496);
  Sampler sampler({});
  std::vector<double> times;
  std::int32_t id = 1;
  Timed t;
  for (int i = 0; i <= kRuns; ++i) {
    executor.take_bytes();
    const auto begin = std::chrono::steady_clock::now();
    for (int k = 0; k < kTokens; ++k) id = executor.decode(id, sampler);
    const std::chrono::duration<double> time = std::chrono::steady_clock::now() - begin;
    t.copied = executor.take_bytes().to_gpu / kTokens;
    if (i > 0) times.push_back(time.count() / kTokens);
  }
  t.seconds = median(times);
  return t;
}

// Times a row; nullopt: its executor could not be made, and an error was printed.
std::optional<Timed> timed(const CopiedRow& row, const Catalogue& catalogue, int threads,
                           bool resident) {
  auto executor = executor_of(row, catalogue, threads, resident);
  if (executor) return row.prompt > 0 ? timed_prompt(row, **executor) : timed_tokens(**executor);
  fmt::print("{:<34} {}\n", row.name, executor.error().text());
  return std::nullopt;
}

void run(const CopiedRow& row, const Catalogue& catalogue, int threads) {
  const auto resident = timed(row, catalogue, threads, true);
  const auto copied = resident ? timed(row, catalogue, threads, false) : std::nullopt;
  if (!copied) return;
  const double link = pinned_rate(), of_link = copied->copied / link;
  const double least = std::max(of_link, resident->seconds), ratio = least / copied->seconds;
  fmt::print("{:<34}{:>9.2f} ms; link {:.2f} ({:.2f} GB at {:.1f} GB/s), resident {:.2f}: {:.2f}",
             row.name, 1e3 * copied->seconds, 1e3 * of_link, copied->copied / 1e9, link / 1e9,
             1e3 * resident->seconds, ratio);
  if (row.bar > 0) fmt::print(", bar {:.2f}: {}", row.bar, ratio >= row.bar ? "ok" : "MISSED");
  fmt::print("\n");
  std::fflush(stdout);
}

// Comparisons of measured times with what other measurements of the same round imply.
class Rules {
 public:
  Rules(Table table, const Catalogue& catalogue)
      : measured_(std::move(table)),
        spec_(*catalogue.model("llama-3.1-8b")),
        table_(*make_tensor_table(spec_, *QuantMix::from_name("Q4_K_M"))),
        link_(pinned_rate()) {}

  void print() const {
    fmt::print("link {:.1f} GB/s, the host's memory reads {:.1f} GB/s\n", link_ / 1e9,
               median(measured_.reads) / 1e9);
    for (const int layers : {24, 16, 8}) sum_of_layers(layers);
    whole_on_host();
    caches();
    paged();
  }

 private:
  using OfTurn = std::function<double(std::size_t turn)>;

  bool has(const std::string& name) const { return measured_.tokens.contains("8B, " + name); }
  const std::vector<double>& of(const std::string& name) const {
    return measured_.tokens.at("8B, " + name);
  }
  const std::vector<double>& own_reads(const std::string& name) const {
    return measured_.own_reads.at("8B, " + name);
  }
  double dram(std::size_t turn) const { return measured_.reads[turn]; }
  double bytes_of_first(int layers) const {
    double sum = 0;
    for (int i = 0; i < layers; ++i) {
      const LayerWeights& w = table_.layers[std::size_t(i)];
      sum += double(w.attention.bytes() + w.ffn.bytes());
    }
    return sum;
  }

  // Prints medians, and the median of the ratios.
  template <class Holds>
  static void say(const std::string& what, const OfTurn& measured, const OfTurn& expected,
                  const Holds& holds) {
    std::vector<double> m, e, ratio;
    for (std::size_t turn = 0; turn < std::size_t(kRuns); ++turn) {
      m.push_back(measured(turn));
      e.push_back(expected(turn));
      ratio.push_back(m.back() / e.back());
    }
    fmt::print("{:<52}{:>9.3f} of {:>9.3f}: {:.3f} {}\n", what, median(m), median(e), median(ratio),
               holds(median(ratio)) ? "ok" : "MISSED");
  }
  static auto at_least(double least) {
    return [least](double ratio) { return ratio >= least; };
  }
  static auto within(double error) {
    return [error](double ratio) { return std::abs(ratio - 1) <= error; };
  }

  // A token's time is the sum of its layers' times on both sides: it is interpolated between all
  // and no layers on the GPU, by the bytes of the layers on it, because nothing overlaps.
  void sum_of_layers(int on_gpu) const {
    const std::string name = fmt::format("head and {} layers", on_gpu);
    if (!has(name) || !has("all on the GPU") || !has("head alone")) return;
    const double bytes = bytes_of_first(32 - on_gpu), share = bytes / bytes_of_first(32);
    const auto &all = of("all on the GPU"), &none = of("head alone"), &some = of(name);
    const auto &read = own_reads(name), &read_none = own_reads("head alone");
    const auto time = [&](std::size_t t) { return 1e3 * some[t]; };
    say(
        name + ", ms, and the sum of layers", time,
        [&](std::size_t t) { return 1e3 * (all[t] + share * (none[t] - all[t])); }, within(0.05));
    // Memory differs in speed, and a cache holds a larger part of few layers than of many.
    say(
        "  and where all read as fast as these", time,
        [&](std::size_t t) {
          return 1e3 * (all[t] * (1 - share) + share * none[t] * read_none[t] / read[t]);
        },
        within(0.05));
    // The time includes handoffs.
    say(
        "  its host layers, GB/s, and as they are read alone",
        [&](std::size_t t) { return bytes / (some[t] - all[t] * (1 - share)) / 1e9; },
        [&](std::size_t t) { return read[t] / 1e9; }, at_least(0.85));
  }
  void whole_on_host() const {
    if (has("head alone"))
      say(
          "head alone, its host layers, GB/s, and alone",
          [&](std::size_t t) { return bytes_of_first(32) / of("head alone")[t] / 1e9; },
          [&](std::size_t t) { return own_reads("head alone")[t] / 1e9; }, at_least(0.85));
    if (!has("nothing")) return;
    const double bytes = bytes_of_first(32) + double(table_.head.bytes());
    say(
        "nothing on the GPU, GB/s, and as layers are read alone",
        [&](std::size_t t) { return bytes / of("nothing")[t] / 1e9; },
        [&](std::size_t t) { return own_reads("nothing")[t] / 1e9; }, at_least(0.85));
  }

  double kv(TokenCount tokens) const {
    return double(tokens) * kv_bytes_per_token(spec_, KvTypes{});
  }
  void caches() const {
    const auto rate = [&](const std::string& name) {
      return [this, name](std::size_t t) { return kv(16384) / of(name)[t] / 1e9; };
    };
    if (has("KV stream 16k"))
      say(
          "KV stream, GB/s, and the link", rate("KV stream 16k"),
          [&](std::size_t) { return link_ / 1e9; }, at_least(0.85));
    if (has("KV ram 16k"))
      say(
          "KV ram, GB/s, and what memory reads", rate("KV ram 16k"),
          [&](std::size_t t) { return dram(t) / 1e9; }, at_least(0.6));
    if (!has("KV combined 16k") || !has("KV ram 16k") || !has("KV stream 16k")) return;
    say(
        "KV combined, tok/s, and the better of the two",
        [&](std::size_t t) { return 1 / of("KV combined 16k")[t]; },
        [&](std::size_t t) { return 1 / std::min(of("KV ram 16k")[t], of("KV stream 16k")[t]); },
        at_least(1.3));
    // Both sides read the same memory.
    fmt::print("  its keys and values, {:.1f} GB/s of what memory reads\n",
               kv(16384) / median(of("KV combined 16k")) / 1e9);
  }
  void paged() const {
    if (!has("KV vram 32k")) return;
    const auto& all = of("KV vram 32k");
    if (has("KV paged 32k, 1 % cold")) {
      fmt::print("the link hides {:.2f} % of 32k tokens, {:.2f} % are cold\n",
                 100 * median(all) * link_ / kv(32768), 100 * 384 / 32768.0);
      say(
          "KV paged, little, tok/s, and vram",
          [&](std::size_t t) { return 1 / of("KV paged 32k, 1 % cold")[t]; },
          [&](std::size_t t) { return 1 / all[t]; }, at_least(0.97));
    }
    if (!has("KV paged 32k, half cold")) return;
    say(
        "KV paged, half, ms, and the link",
        [&](std::size_t t) { return 1e3 * of("KV paged 32k, half cold")[t]; },
        [&](std::size_t t) { return 1e3 * std::max(all[t], kv(16384) / link_); }, within(0.1));
  }

  Table measured_;
  ModelSpec spec_;
  TensorTable table_;
  double link_;
};

}  // namespace

int main(int argc, char** argv) {
  const char* data = std::getenv("RIGCAST_DATA");  // for a build that was moved to another machine
  const Catalogue catalogue{data ? data : RIGCAST_SOURCE_DIR};
  const int threads = int(std::max(1u, std::thread::hardware_concurrency()));
  bench::HostReads reads(threads);
  if (argc < 2) {
    for (const int floats : {2048, 4096, 8192})
      fmt::print("{} floats to the host and back: {:.1f} us\n", floats,
                 1e6 * bench::handoff_seconds(floats));
  }
  for (const auto group : kGroups) {
    std::vector<const Row*> wanted;
    for (const Row& row : group)
      if (is_wanted(row.name, argc, argv)) wanted.push_back(&row);
    if (wanted.empty()) continue;
    Rules(run(wanted, catalogue, threads, reads), catalogue).print();
  }
  for (const CopiedRow& row : kCopiedRows)
    if (is_wanted(row.name, argc, argv)) run(row, catalogue, threads);
}
