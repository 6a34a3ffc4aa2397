// One token over a long context: every key and value is read once, so that memory is the bound.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>

#include "bench/engine/activations.hpp"
#include "bench/engine/bars.hpp"
#include "bench/engine/dram_read.hpp"
#include "engine/kernels/cpu/attention.hpp"
#include "engine/kv/kv_cache.hpp"

namespace rigcast::bench {
namespace {

namespace cpu = engine::cpu;
using cpu::kPartition;
using engine::Worker;

constexpr TokenCount kTokens = 8192;
constexpr int kRounds = 15;
constexpr double kLeast = 0.6;
constexpr double kCacheBytes = 512e6;  // of keys and values: many times the last cache

class Context {
 public:
  Context(engine::Team& team, ModelSpec model)
      : team_(team), model_(with_layers(std::move(model))), cache_(model_, {}, kPartition) {
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
    const std::size_t rows = std::size_t(model_.heads) * kPartitions;
    o_.resize(rows * std::size_t(model_.head_dim));
    m_.resize(rows);
    l_.resize(rows);
    scratch_.resize(std::size_t(team.size()));
  }

  double bytes() const { return double(model_.layers * kTokens * cache_.token_bytes()); }
  void run() {
    team_.run([&](Worker& worker) {
      for (int layer = 0; layer < model_.layers; ++layer) attend(worker, layer);
    });
  }

 private:
  static constexpr std::int64_t kPartitions = kTokens / kPartition;

  static ModelSpec with_layers(ModelSpec model) {
    const double layer = double(kTokens * model.kv_heads * model.head_dim * 4);
    model.layers = int(kCacheBytes / layer);
    return model;
  }

  // As the executor does it: heads and partitions are shared by all threads, then merged.
  void attend(Worker& worker, int layer) {
    const int dim = int(model_.head_dim), group = model_.heads / model_.kv_heads;
    Thread& own = scratch_[std::size_t(worker.index())];
    own.from.assign(std::size_t(group), 0);
    own.to.assign(std::size_t(group), kTokens);
    worker.share(model_.kv_heads * kPartitions, 1, [&](std::int64_t task, std::int64_t) {
      const int head = int(task / kPartitions);
      const TokenCount begin = task % kPartitions * kPartition;
      cache_.runs(layer, head, begin, begin + kPartition, own.runs);
      const std::int64_t at = task * group;
      cpu::attend(own.runs, begin, cache_.types(), dim,
                  {q_.data() + head * group * dim, group, own.from.data(), own.to.data()},
                  1.0f / std::sqrt(float(dim)),
                  {o_.data() + at * dim, m_.data() + at, l_.data() + at}, own.scratch);
    });
    worker.share(model_.heads, 4, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t h = begin; h < end; ++h) {
        const std::int64_t at = h / group * kPartitions * group + h % group;
        cpu::merge_partials({o_.data() + at * dim, m_.data() + at, l_.data() + at},
                            int(kPartitions), group, dim, out_.data() + h * dim);
      }
    });
  }

  struct Thread {
    cpu::AttentionScratch scratch;
    std::vector<cpu::KvRun> runs;
    std::vector<TokenCount> from, to;
  };

  engine::Team& team_;
  ModelSpec model_;
  engine::KvCache cache_;
  std::vector<float> q_, out_, o_, m_, l_;
  std::vector<Thread> scratch_;
};

}  // namespace

std::vector<Bar> attention_bars(engine::Team& team, const std::vector<ModelSpec>& models) {
  DramRead dram(team);
  std::vector<Contender> contenders = dram.contenders();
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
