#include "engine/runtime/decode_attention.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace rigcast::engine {

using cpu::kPartition;

DecodeAttention::DecodeAttention(const ModelSpec& spec, int threads)
    : kv_heads_(spec.kv_heads),
      group_(spec.heads / spec.kv_heads),
      dim_(int(spec.head_dim)),
      threads_(std::size_t(threads)) {}

void DecodeAttention::run(Worker& worker, const KvCache& cache, int layer, TokenCount from,
                          TokenCount to, const float* q, float* out) {
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
  worker.share(kv_heads_ * group_, 4, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t h = begin; h < end; ++h) {
      cpu::merge_partials({o_.data() + h * dim_, m_.data() + h, l_.data() + h}, int(count),
                          kv_heads_ * group_, dim_, out + h * dim_);
    }
  });
}

void DecodeAttention::sums(std::span<float> most, std::span<float> sum) const {
  const std::size_t heads = std::size_t(kv_heads_ * group_);
  std::fill(most.begin(), most.end(), -std::numeric_limits<float>::infinity());
  std::fill(sum.begin(), sum.end(), 0.0f);
  for (std::size_t h = 0; h < heads; ++h) {
    for (TokenCount p = 0; p < count_; ++p)
      most[h] = std::max(most[h], m_[std::size_t(p) * heads + h]);
    for (std::size_t i = h; i < std::size_t(count_) * heads; i += heads)
      if (m_[i] > -std::numeric_limits<float>::infinity())
        sum[h] += l_[i] * std::exp(m_[i] - most[h]);
  }
}

}  // namespace rigcast::engine
