#pragma once
// Attention of one token over the cache: tasks of heads and partitions are spread over all threads,
// then partials are merged.

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "engine/kernels/cpu/attention.hpp"
#include "engine/kv/kv_cache.hpp"
#include "engine/model/model.hpp"
#include "engine/threads/thread_team.hpp"

namespace rigcast::engine {

/// The keys and values of one sequence. A view.
struct KvView {
  const KvCache& cache;
  BlockTable table{};

  KvView(const KvCache& of, BlockTable table_ = {}) : cache(of), table(table_) {}
};

/// Work before and after a token's attention.
struct AroundHeads {
  /// Called by one member before anything is read.
  std::function<void()> before{};
  /// Called by the member that merged heads [begin, end): `heads` at a time, fewer at the end.
  std::function<void(std::int64_t begin, std::int64_t end)> heads_done{};
  std::int64_t heads = 1;
};

class DecodeAttention {
 public:
  /// `scores`: by layer; none: they are scaled by 1 / sqrt(head_dim).
  DecodeAttention(const ModelSpec& spec, int threads, std::vector<cpu::Scores> scores = {});

  // Every member of the team calls these. The query attends to tokens [from, to) of the cache; q is
  // [heads][head_dim]. Results are bit-identical for any number of threads. They end without a
  // barrier: the next stage must begin with one.

  /// out [heads][head_dim] = the attention output of the query.
  void run(Worker& worker, const KvView& kv, int layer, TokenCount from, TokenCount to,
           const float* q, float* out, const AroundHeads& around = {});
  /// Partial attention, to be merged with the partials of other tokens and the sinks: a row of
  /// `out` for every head.
  void run_part(Worker& worker, const KvView& kv, int layer, TokenCount from, TokenCount to,
                const float* q, const cpu::Partials& out);
  /// Prefetches, before the query has arrived, what run() reads first: every member its own part,
  /// but the first, which may have to wait for the query.
  void prefetch_kv(Worker& worker, const KvView& kv, int layer, TokenCount from, TokenCount to);

 private:
  // The range of the cache to which a query attends.
  struct Seen {
    const KvCache* cache = nullptr;
    BlockTable table{};
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
  std::int64_t prefetch_tasks(std::int64_t tasks, std::int64_t task_bytes, int members) const;
  void attend_partitions(Worker& worker, const KvView& kv, int layer, TokenCount from,
                         TokenCount to, const float* q, const AroundHeads& around);
  template <class Use>
  void merge(Worker& worker, int layer, const AroundHeads& around, const Use& use);

  std::vector<AttentionShape> shapes_;  // shapes by layer
  std::vector<cpu::Scores> scores_;     // likewise
  std::vector<float> o_, m_, l_;        // partials: [partition][kv head][query]
  TokenCount count_ = 0;                // partitions
  Seen prefetched_;                     // the range that was prefetched
  std::int64_t own_tasks_ = 0;          // prefetched tasks of every member but the first
  std::vector<Thread> threads_;
};

}  // namespace rigcast::engine
