// One token over a long context: every key and value is read once, so that memory is the bound.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>

#include "bench/engine/activations.hpp"
#include "bench/engine/bars.hpp"
#include "bench/engine/dram_read.hpp"
#include "engine/runtime/decode_attention.hpp"

namespace rigcast::bench {
namespace {

using engine::Worker;
using engine::cpu::kPartition;

constexpr TokenCount kTokens = 8192;
constexpr int kRounds = 15;
constexpr double kLeast = 0.6;
constexpr double kCacheBytes = 512e6;  // of keys and values: many times the last cache

class Context {
 public:
  Context(engine::Team& team, ModelSpec model)
      : team_(team),
        model_(with_layers(std::move(model))),
        cache_(model_, {}, kPartition),
        attention_(model_, team.size()) {
    const std::int64_t width = model_.kv_heads * model_.head_dim;
    cache_.reserve(kTokens);
    const std::vector<float> kv = activations(width + kTokens, 1);
    team_.run([&](Worker& worker) {
      for (int layer = 0; layer < model_.layers; ++layer)
        worker.share(kTokens, kPartition, [&](std::int64_t begin, std::int64_t end) {
          for (TokenCount t = begin; t < end; ++t)
            cache_.store(layer, t, kv.data() + t, kv.data() + kTokens - t);
        });
    });
    q_ = activations(model_.heads * model_.head_dim, 2);
    out_.resize(q_.size());
  }

  double bytes() const { return double(model_.layers * kTokens * cache_.token_bytes()); }
  void run() {
    team_.run([&](Worker& worker) {
      for (int layer = 0; layer < model_.layers; ++layer)
        attention_.run(worker, cache_, layer, 0, kTokens, q_.data(), out_.data());
    });
  }

 private:
  static ModelSpec with_layers(ModelSpec model) {
    const double layer = double(kTokens * model.kv_heads * model.head_dim * 4);
    model.layers = int(kCacheBytes / layer);
    return model;
  }

  engine::Team& team_;
  ModelSpec model_;
  engine::KvCache cache_;
  engine::DecodeAttention attention_;
  std::vector<float> q_, out_;
};

}  // namespace

std::vector<Bar> attention_bars(engine::Team& team, const std::vector<ModelSpec>& models) {
  probe::DramRead dram(team);
  std::vector<Contender> contenders = read_contenders(dram);
  const std::size_t reads = contenders.size();
  std::vector<std::unique_ptr<Context>> contexts;
  for (const ModelSpec& model : models) {
    Context& c = *contexts.emplace_back(std::make_unique<Context>(team, model));
    contenders.push_back(
        {fmt::format("attention over {} tokens, heads of {}", kTokens, model.head_dim), c.bytes(),
         [&c] { c.run(); }});
  }
  const std::vector<Rates> rates = compete(contenders, kRounds, 1e9, "GB/s");
  std::vector<Bar> out;
  for (std::size_t i = 0; i < models.size(); ++i) {
    const double rate = rates[reads + i].median();
    out.push_back({fmt::format("attention, {}", models[i].name),
                   fmt::format("{:.1f} GB/s", rate / 1e9), rate / best_median(rates, reads), kLeast,
                   "DRAM read"});
  }
  return out;
}

}  // namespace rigcast::bench
