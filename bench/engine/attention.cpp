// Attention of one token over a long context: every key and value is read once, so memory is the
// limit.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>

#include "bench/engine/activations.hpp"
#include "bench/engine/bars.hpp"
#include "bench/engine/dram_read.hpp"
#include "engine/backends/cpu/attention/decode_attention.hpp"

namespace rigcast::bench {
namespace {

using engine::Worker;
using engine::cpu::kPartition;

constexpr TokenCount kTokens = 8192;
constexpr int kRounds = 15;
constexpr double kMin = 0.6;
constexpr double kBytes = 512e6;  // bytes of keys and values: many times the LLC
// A context whose keys and values fit into the cores' own caches, and the number of its repeats.
constexpr TokenCount kFewTokens = 512;
constexpr int kRepeats = 200;

class Context {
 public:
  Context(engine::ThreadTeam& team, ModelSpec model, KvTypes types, TokenCount tokens, int layers,
          int repeats)
      : team_(team),
        tokens_(tokens),
        repeats_(repeats),
        model_(with_layers(std::move(model), layers)),
        cache_(model_, types, kPartition),
        attention_(model_, team.size()) {
    const std::int64_t width = model_.kv_heads * model_.head_dim;
    cache_.reserve(tokens);
    const std::vector<float> kv = activations(width + tokens, 1);
    team_.run([&](Worker& worker) {
      for (int layer = 0; layer < model_.layers; ++layer)
        worker.parallel_for(tokens, kPartition, [&](std::int64_t begin, std::int64_t end) {
          for (TokenCount t = begin; t < end; ++t)
            cache_.store(layer, t, kv.data() + t, kv.data() + tokens - t);
        });
    });
    q_ = activations(model_.heads * model_.head_dim, 2);
    out_.resize(q_.size());
  }

  double bytes() const { return double(repeats_ * model_.layers * tokens_ * cache_.token_bytes()); }
  void run() {
    team_.run([&](Worker& worker) {
      for (int i = 0; i < repeats_ * model_.layers; ++i)
        attention_.run(worker, cache_, i % model_.layers, 0, tokens_, q_.data(), out_.data());
    });
  }

 private:
  static ModelSpec with_layers(ModelSpec model, int layers) {
    model.layers = layers;
    return model;
  }

  engine::ThreadTeam& team_;
  TokenCount tokens_;
  int repeats_;
  ModelSpec model_;
  engine::KvCache cache_;
  engine::DecodeAttention attention_;
  std::vector<float> q_, out_;
};

}  // namespace

std::vector<Bar> attention_bars(engine::ThreadTeam& team, const std::vector<ModelSpec>& models) {
  probe::DramRead dram(team);
  std::vector<Contender> contenders = read_contenders(dram);
  const std::size_t reads = contenders.size();
  std::vector<std::unique_ptr<Context>> contexts;
  const auto add = [&](std::string name, auto... context) {
    Context& c = *contexts.emplace_back(std::make_unique<Context>(team, context...));
    contenders.push_back({std::move(name), c.bytes(), [&c] { c.run(); }});
  };
  struct Case {
    std::string name;
    double least;
  };
  std::vector<Case> cases;
  const auto attention = [&](const ModelSpec& m, KvTypes types, double least) {
    cases.push_back({fmt::format("{} KV, heads of {}", info(types.k).name, m.head_dim), least});
    const double layer = double(kTokens) * kv_bytes_per_token(m, 0, types);
    add(fmt::format("attention over {} tokens, {}", kTokens, cases.back().name), m, types, kTokens,
        int(kBytes / layer), 1);
    add("  in the cache", m, types, kFewTokens, 1, kRepeats);
  };
  for (const ModelSpec& m : models) attention(m, {}, kMin);
  for (const QuantFormat type : {QuantFormat::kQ8_0, QuantFormat::kQ4_0})
    for (const ModelSpec& m : models) attention(m, {type, type}, 0);
  const std::vector<Rates> rates = compete(contenders, kRounds, 1e9, "GB/s");
  const double best = best_median(rates, reads);
  std::vector<Bar> out;
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const double rate = rates[reads + 2 * i].median(), cached = rates[reads + 2 * i + 1].median();
    const std::string figure = fmt::format("{:.1f} GB/s", rate / 1e9);
    out.push_back({cases[i].name, figure, rate / best, cases[i].least, "DRAM read"});
    out.push_back(
        {cases[i].name, figure, rate / cached, 0, fmt::format("in cache, {:.1f}", cached / 1e9)});
  }
  return out;
}

}  // namespace rigcast::bench
