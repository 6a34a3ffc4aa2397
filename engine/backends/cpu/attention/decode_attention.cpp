#include "engine/backends/cpu/attention/decode_attention.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace rigcast::engine {

using cpu::kPartition;

namespace {

void fetch(const cpu::KvRun& run, std::int64_t row_bytes) {
  for (const auto* const rows : {run.k, run.v})
    for (std::int64_t at = 0; at < run.tokens * row_bytes; at += 64)
      __builtin_prefetch(static_cast<const std::byte*>(rows) + at, 0, 2);
}

}  // namespace

DecodeAttention::DecodeAttention(const ModelSpec& spec, int threads,
                                 std::vector<cpu::Scores> scores)
    : scores_(std::move(scores)), threads_(std::size_t(threads)) {
  for (int layer = 0; layer < spec.layers; ++layer) shapes_.push_back(attention_shape(spec, layer));
  if (!scores_.empty()) return;
  for (const AttentionShape& shape : shapes_)
    scores_.push_back({1.0f / std::sqrt(float(shape.head_dim))});
}

void DecodeAttention::run(Worker& worker, const KvView& kv, int layer, TokenCount from,
                          TokenCount to, const float* q, float* out, const AroundHeads& around) {
  const int dim = int(shape(layer).head_dim), heads = shape(layer).heads;
  attend_partitions(worker, kv, layer, from, to, q, around);
  merge(worker, layer, around, [&](std::int64_t head, const cpu::Partials& of_head) {
    cpu::merge_to_output(of_head, int(count_), heads, dim, out + head * dim,
                         scores_[std::size_t(layer)].sink(head));
  });
}

void DecodeAttention::run_part(Worker& worker, const KvView& kv, int layer, TokenCount from,
                               TokenCount to, const float* q, const cpu::Partials& out) {
  const int dim = int(shape(layer).head_dim), heads = shape(layer).heads;
  attend_partitions(worker, kv, layer, from, to, q, {});
  merge(worker, layer, {}, [&](std::int64_t head, const cpu::Partials& of_head) {
    cpu::merge_partials(of_head, int(count_), heads, dim,
                        {out.o + head * dim, out.m + head, out.l + head});
  });
}

// The number of tasks: a task is one partition of one KV head. Heads of the same partition are
// neighbours.
std::int64_t DecodeAttention::tasks(int layer, TokenCount from, TokenCount to) const {
  return shape(layer).kv_heads * ((to - 1) / kPartition + 1 - from / kPartition);
}

std::int64_t DecodeAttention::task_bytes(const KvCache& cache, int layer) const {
  return kPartition * cache.token_bytes(layer) / shape(layer).kv_heads;
}

// The number of tasks that a member prefetches (every member but the first): what fits in its own
// cache, and less than half of its share, because members are not equally fast.
std::int64_t DecodeAttention::prefetch_tasks(std::int64_t tasks, std::int64_t task_bytes,
                                             int members) const {
  return std::min(Prefetcher::kMaxBytes / task_bytes, tasks / (2 * members));
}

void DecodeAttention::prefetch_kv(Worker& worker, const KvView& kv, int layer, TokenCount from,
                                  TokenCount to) {
  if (worker.first()) prefetched_ = {&kv.cache, kv.table, layer, from, to};
  if (worker.first() || from >= to) return;
  const std::int64_t own =
      prefetch_tasks(tasks(layer, from, to), task_bytes(kv.cache, layer), worker.count());
  const int kv_heads = shape(layer).kv_heads;
  Thread& thread = threads_[std::size_t(worker.index())];
  for (std::int64_t task = (worker.index() - 1) * own; task < worker.index() * own; ++task) {
    const TokenCount token = (from / kPartition + task / kv_heads) * kPartition;
    kv.cache.runs(layer, int(task % kv_heads), token, std::min(token + kPartition, to), thread.runs,
                  kv.table);
    for (const cpu::KvRun& run : thread.runs)
      fetch(run, kv.cache.token_bytes(layer) / kv_heads / 2);
  }
}

void DecodeAttention::attend_partitions(Worker& worker, const KvView& kv, int layer,
                                        TokenCount from, TokenCount to, const float* q,
                                        const AroundHeads& around) {
  const TokenCount first = from / kPartition;
  const std::int64_t all = tasks(layer, from, to);
  const int kv_heads = shape(layer).kv_heads, group = shape(layer).heads_per_kv_head(),
            dim = int(shape(layer).head_dim);
  worker.run_once([&] {
    if (around.before) around.before();
    count_ = all / kv_heads;
    o_.resize(std::size_t(all * group * dim));
    m_.resize(std::size_t(all * group));
    l_.resize(std::size_t(all * group));
    own_tasks_ = std::exchange(prefetched_, {}) == Seen{&kv.cache, kv.table, layer, from, to}
                     ? prefetch_tasks(all, task_bytes(kv.cache, layer), worker.count())
                     : 0;
  });
  Thread& own = threads_[std::size_t(worker.index())];
  own.from.assign(std::size_t(group), from);
  own.to.assign(std::size_t(group), to);
  const auto attend = [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t task = begin; task < end; ++task) {
      const TokenCount token = (first + task / kv_heads) * kPartition;
      kv.cache.runs(layer, int(task % kv_heads), token, std::min(token + kPartition, to), own.runs,
                    kv.table);
      const std::int64_t at = task * group;
      cpu::attend(own.runs, token, kv.cache.types(), dim,
                  {q + task % kv_heads * group * dim, group, own.from.data(), own.to.data()},
                  scores_[std::size_t(layer)],
                  {o_.data() + at * dim, m_.data() + at, l_.data() + at}, own.attention);
    }
  };
  if (!worker.first()) attend((worker.index() - 1) * own_tasks_, worker.index() * own_tasks_);
  const std::int64_t of_members = (worker.count() - 1) * own_tasks_;
  worker.parallel_for_guided(all - of_members, [&](std::int64_t begin, std::int64_t end) {
    attend(of_members + begin, of_members + end);
  });
}

// Calls use(head, its partials) for every head, each by one thread. The partials of a head are as
// many elements apart as there are heads.
template <class Use>
void DecodeAttention::merge(Worker& worker, int layer, const AroundHeads& around, const Use& use) {
  const std::int64_t heads = shape(layer).heads, dim = shape(layer).head_dim;
  worker.parallel_for_nowait(heads, around.heads, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t h = begin; h < end; ++h)
      use(h, {o_.data() + h * dim, m_.data() + h, l_.data() + h});
    if (around.heads_done) around.heads_done(begin, end);
  });
}

}  // namespace rigcast::engine
