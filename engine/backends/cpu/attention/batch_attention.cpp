#include "engine/backends/cpu/attention/batch_attention.hpp"

#include <algorithm>

namespace rigcast::engine {

using cpu::kPartition;

namespace {

TokenCount partitions_up_to(TokenCount to) { return (to - 1) / kPartition + 1; }

}  // namespace

void BatchAttention::begin(std::span<const StepSequence> sequences) {
  sequences_ = sequences;
  shape_ = {};
}

void BatchAttention::plan(const AttentionShape& shape) {
  if (shape == shape_) return;
  shape_ = shape;
  tasks_.clear();
  cut_rows_.clear();
  partials_ = 0;
  // The longest tasks first, so that all threads end together.
  for (const StepSequence& s : sequences_)
    if (s.tokens > 1) plan_rows(s);
  for (const StepSequence& s : sequences_)
    if (s.tokens == 1) plan_row(s);
  cpu::resize_at_least(o_, std::size_t(partials_ * shape.head_dim));
  cpu::resize_at_least(m_, std::size_t(partials_));
  cpu::resize_at_least(l_, std::size_t(partials_));
}

void BatchAttention::plan_rows(const StepSequence& s) {
  // Rows that share one read of the cache.
  const std::int64_t at_once = std::max(1, 32 / shape_.heads_per_kv_head());
  const std::int64_t end = s.first + s.tokens;
  for (int head = 0; head < shape_.kv_heads; ++head)
    for (std::int64_t first = s.first; first < end; first += at_once)
      tasks_.push_back({&s, head, first, std::min(end, first + at_once)});
}

// Heads of a partition are neighbours, as they are in the cache.
void BatchAttention::plan_row(const StepSequence& s) {
  const TokenCount first = shape_.first_attended(s.cached) / kPartition,
                   end = partitions_up_to(s.cached + 1);
  cut_rows_.push_back({s.first, partials_, int(end - first)});
  for (TokenCount p = first; p < end; ++p) {
    for (int head = 0; head < shape_.kv_heads; ++head)
      tasks_.push_back(
          {&s, head, s.first, s.first + 1, p, partials_ + head * shape_.heads_per_kv_head()});
    partials_ += shape_.heads;
  }
}

void BatchAttention::attend_partition(Thread& own, const LayerKv& kv, const Task& task,
                                      const float* q) {
  const int dim = int(shape_.head_dim), group = shape_.heads_per_kv_head();
  const StepSequence& s = *task.sequence;
  const TokenCount begin = task.partition * kPartition, to = s.cached + 1;
  own.from.assign(std::size_t(group), shape_.first_attended(s.cached));
  own.to.assign(std::size_t(group), to);
  kv.cache.runs(kv.layer, task.kv_head, begin, std::min(begin + kPartition, to), own.runs, s.table);
  cpu::attend(
      own.runs, begin, kv.cache.types(), dim,
      {q + (task.first * shape_.heads + task.kv_head * group) * dim, group, own.from.data(),
       own.to.data()},
      kv.scores,
      {o_.data() + task.partials * dim, m_.data() + task.partials, l_.data() + task.partials},
      own.attention);
}

// One thread computes all partitions, one after the other.
void BatchAttention::attend_rows(Thread& own, const LayerKv& kv, const Task& task, const float* q,
                                 float* out) const {
  const int dim = int(shape_.head_dim), group = shape_.heads_per_kv_head();
  const int rows = int(task.last - task.first) * group;
  const StepSequence& s = *task.sequence;
  own.rows.resize(std::size_t(rows * dim));
  own.from.clear();
  own.to.clear();
  for (std::int64_t t = task.first; t < task.last; ++t) {
    const TokenCount position = s.position(t);
    std::copy_n(q + (t * shape_.heads + task.kv_head * group) * dim, group * dim,
                own.rows.data() + (t - task.first) * group * dim);
    own.from.insert(own.from.end(), std::size_t(group), shape_.first_attended(position));
    own.to.insert(own.to.end(), std::size_t(group), position + 1);
  }
  const TokenCount from = own.from.front() / kPartition, to = own.to.back();
  const int count = int(partitions_up_to(to) - from);
  own.o.resize(std::size_t(count) * std::size_t(rows * dim));
  own.m.resize(std::size_t(count * rows));
  own.l.resize(std::size_t(count * rows));
  for (int p = 0; p < count; ++p) {
    const TokenCount begin = (from + p) * kPartition;
    kv.cache.runs(kv.layer, task.kv_head, begin, std::min(begin + kPartition, to), own.runs,
                  s.table);
    const std::int64_t at = std::int64_t(p) * rows;
    cpu::attend(own.runs, begin, kv.cache.types(), dim,
                {own.rows.data(), rows, own.from.data(), own.to.data()}, kv.scores,
                {own.o.data() + at * dim, own.m.data() + at, own.l.data() + at}, own.attention);
  }
  for (int r = 0; r < rows; ++r) {
    const std::int64_t t = task.first + r / group, h = task.kv_head * group + r % group;
    cpu::merge_to_output({own.o.data() + r * dim, own.m.data() + r, own.l.data() + r}, count, rows,
                         dim, out + (t * shape_.heads + h) * dim, kv.scores.sink(h));
  }
}

// Head `of` of all cut rows' heads.
void BatchAttention::merge(std::int64_t of, const cpu::Scores& scores, float* out) {
  const std::int64_t dim = shape_.head_dim, head = of % shape_.heads;
  const CutRow& cut = cut_rows_[std::size_t(of / shape_.heads)];
  const std::int64_t at = cut.partials + head;
  cpu::merge_to_output({o_.data() + at * dim, m_.data() + at, l_.data() + at}, cut.partitions,
                       shape_.heads, int(dim), out + (cut.row * shape_.heads + head) * dim,
                       scores.sink(head));
}

void BatchAttention::run(Worker& worker, const KvCache& cache, int layer, const cpu::Scores& scores,
                         const float* q, float* out) {
  const LayerKv kv{cache, layer, scores};
  Thread& own = threads_[std::size_t(worker.index())];
  worker.parallel_for_nowait(std::int64_t(tasks_.size()), 1, [&](std::int64_t index, std::int64_t) {
    const Task& task = tasks_[std::size_t(index)];
    task.partition < 0 ? attend_rows(own, kv, task, q, out) : attend_partition(own, kv, task, q);
  });
  if (cut_rows_.empty()) return;
  worker.barrier();
  worker.parallel_for_nowait(std::int64_t(cut_rows_.size()) * shape_.heads, 4,
                             [&](std::int64_t begin, std::int64_t end) {
                               for (std::int64_t of = begin; of < end; ++of) merge(of, scores, out);
                             });
}

}  // namespace rigcast::engine
