#pragma once
// Attention of one token over the cache: heads and partitions are shared by all threads, then
// merged.

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "engine/kernels/cpu/attention.hpp"
#include "engine/kv/kv_cache.hpp"
#include "engine/model/model.hpp"
#include "engine/threads/team.hpp"

namespace rigcast::engine {

/// What is done around a token's attention.
struct AroundHeads {
  /// By one member, before anything is read.
  std::function<void()> before{};
  /// By whoever mixed heads [begin, end): `heads` at a time, fewer at the end.
  std::function<void(std::int64_t begin, std::int64_t end)> mixed{};
  std::int64_t heads = 1;
};

class DecodeAttention {
 public:
  DecodeAttention(const ModelSpec& spec, int threads);

  // Every member of the team calls these. The query sees tokens [from, to) of the cache; q is
  // [heads][head_dim]. The same bits for any number of threads. They end without a barrier: what
  // comes next begins with one.

  /// out [heads][head_dim] = the query's mix of values.
  void run(Worker& worker, const KvCache& cache, int layer, TokenCount from, TokenCount to,
           const float* q, float* out, const AroundHeads& around = {});
  /// The same to be merged with what other tokens give: a row of `out` for every head.
  void run_part(Worker& worker, const KvCache& cache, int layer, TokenCount from, TokenCount to,
                const float* q, const cpu::Partials& out);
  /// While the query is not there yet: what run() attends to first comes near each member but the
  /// first, who may wait for the query.
  void fetch_ahead(Worker& worker, const KvCache& cache, int layer, TokenCount from, TokenCount to);

 private:
  // What a run is about.
  struct Seen {
    const KvCache* cache = nullptr;
    int layer = 0;
    TokenCount from = 0, to = 0;
    bool operator==(const Seen&) const = default;
  };
  struct Thread {
    cpu::AttentionScratch attention;
    std::vector<cpu::KvRun> runs;
    std::vector<TokenCount> from, to;
  };

  const AttentionShape& shape(int layer) const { return shapes_[std::size_t(layer)]; }
  std::int64_t tasks(int layer, TokenCount from, TokenCount to) const;
  std::int64_t task_bytes(const KvCache& cache, int layer) const;
  std::int64_t tasks_ahead(std::int64_t tasks, std::int64_t task_bytes, int members) const;
  void attend_partitions(Worker& worker, const KvCache& cache, int layer, TokenCount from,
                         TokenCount to, const float* q, const AroundHeads& around);
  template <class Use>
  void merge(Worker& worker, int layer, const AroundHeads& around, const Use& use);

  std::vector<AttentionShape> shapes_;  // by layer
  std::vector<float> o_, m_, l_;        // partials: [partition][kv head][query]
  TokenCount count_ = 0;                // partitions
  Seen ahead_;                          // that was fetched
  std::int64_t own_tasks_ = 0;          // of every member but the first
  std::vector<Thread> threads_;
};

}  // namespace rigcast::engine
