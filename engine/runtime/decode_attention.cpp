#include "engine/runtime/decode_attention.hpp"

#include <algorithm>
#include <cmath>

namespace rigcast::engine {

using cpu::kPartition;

DecodeAttention::DecodeAttention(const ModelSpec& spec, int threads)
    : kv_heads_(spec.kv_heads),
      group_(spec.heads / spec.kv_heads),
      dim_(int(spec.head_dim)),
      threads_(std::size_t(threads)) {}

void DecodeAttention::run(Worker& worker, const KvCache& cache, int layer, TokenCount from,
                          TokenCount to, const float* q, float* out) {
  attend_partitions(worker, cache, layer, from, to, q);
  merge(worker, [&](std::int64_t head, const cpu::Partials& of_head, std::int64_t heads) {
    cpu::mix_partials(of_head, int(count_), heads, dim_, out + head * dim_);
  });
}

void DecodeAttention::run_part(Worker& worker, const KvCache& cache, int layer, TokenCount from,
                               TokenCount to, const float* q, const cpu::Partials& out) {
  attend_partitions(worker, cache, layer, from, to, q);
  merge(worker, [&](std::int64_t head, const cpu::Partials& of_head, std::int64_t heads) {
    cpu::merge_partials(of_head, int(count_), heads, dim_,
                        {out.o + head * dim_, out.m + head, out.l + head});
  });
}

void DecodeAttention::attend_partitions(Worker& worker, const KvCache& cache, int layer,
                                        TokenCount from, TokenCount to, const float* q) {
  const TokenCount first = from / kPartition, count = (to - 1) / kPartition + 1 - first;
  const std::int64_t tasks = kv_heads_ * count;
  worker.alone([&] {
    count_ = count;
    o_.resize(std::size_t(tasks * group_ * dim_));
    m_.resize(std::size_t(tasks * group_));
    l_.resize(std::size_t(tasks * group_));
  });
  Thread& own = threads_[std::size_t(worker.index())];
  own.from.assign(std::size_t(group_), from);
  own.to.assign(std::size_t(group_), to);
  worker.share_shrinking(tasks, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t task = begin; task < end; ++task) {
      const TokenCount token = (first + task / kv_heads_) * kPartition;
      cache.runs(layer, int(task % kv_heads_), token, std::min(token + kPartition, to), own.runs);
      const std::int64_t at = task * group_;
      cpu::attend(own.runs, token, cache.types(), dim_,
                  {q + task % kv_heads_ * group_ * dim_, group_, own.from.data(), own.to.data()},
                  1.0f / std::sqrt(float(dim_)),
                  {o_.data() + at * dim_, m_.data() + at, l_.data() + at}, own.attention);
    }
  });
}

// Every head by one thread: use(head, its partials, heads apart from each other).
template <class Use>
void DecodeAttention::merge(Worker& worker, const Use& use) {
  const std::int64_t heads = kv_heads_ * group_;
  worker.share(heads, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t h = begin; h < end; ++h)
      use(h, {o_.data() + h * dim_, m_.data() + h, l_.data() + h}, heads);
  });
}

}  // namespace rigcast::engine
