#include "engine/kernels/cpu/attention.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "core/error.hpp"
#include "engine/kernels/ref/dequantize.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/kernels/cpu/attention.cpp"
#include <hwy/foreach_target.h>
// after foreach_target
#include <hwy/contrib/math/math-inl.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace rigcast::engine::cpu {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using F32 = hn::ScalableTag<float>;
using V = hn::Vec<F32>;

constexpr int kRows = 4;  // cache rows that are decoded at once

// Rows are padded with zeros to whole vectors of any instruction set.
HWY_INLINE int padded(int head_dim) { return (head_dim + 15) / 16 * 16; }

void decode_half(const std::byte* row, float* out, int n) {
  const F32 d;
  const hn::Rebind<hwy::float16_t, F32> half;
  const int lanes = int(hn::Lanes(d));
  int i = 0;
  for (; i + lanes <= n; i += lanes) {
    const auto h = hn::LoadU(half, reinterpret_cast<const hwy::float16_t*>(row) + i);
    hn::StoreU(hn::PromoteTo(d, h), d, out + i);
  }
  if (i < n) ref::dequantize(QuantFormat::kF16, row + 2 * i, {out + i, std::size_t(n - i)});
}

void decode_q8(const std::byte* row, float* out, int n) {
  for (int i = 0; i < n; i += 32, row += 34) {
    float d;
    ref::dequantize(QuantFormat::kF16, row, {&d, 1});
    const auto* q = reinterpret_cast<const std::int8_t*>(row) + 2;
    for (int k = 0; k < 32; ++k) out[i + k] = d * float(q[k]);
  }
}

void decode_q4(const std::byte* row, float* out, int n) {
  for (int i = 0; i < n; i += 32, row += 18) {
    float d;
    ref::dequantize(QuantFormat::kF16, row, {&d, 1});
    const auto* q = reinterpret_cast<const std::uint8_t*>(row) + 2;
    for (int k = 0; k < 16; ++k) out[i + k] = d * float((q[k] & 15) - 8);
    for (int k = 0; k < 16; ++k) out[i + k + 16] = d * float((q[k] >> 4) - 8);
  }
}

void decode(QuantFormat type, const std::byte* row, float* out, int n) {
  switch (type) {
    case QuantFormat::kF16: return decode_half(row, out, n);
    case QuantFormat::kQ8_0: return decode_q8(row, out, n);
    case QuantFormat::kQ4_0: return decode_q4(row, out, n);
    default: std::memcpy(out, row, std::size_t(n) * sizeof(float));
  }
}

// q times each of four rows, `width` apart. Four sums are folded together: lanes of one vector are
// dear to add.
HWY_INLINE void scores_of_four(const float* q, const float* rows, int width, float* out) {
  const F32 d;
  const int lanes = int(hn::Lanes(d));
  V sum[kRows] = {hn::Zero(d), hn::Zero(d), hn::Zero(d), hn::Zero(d)};
  for (int i = 0; i < width; i += lanes) {
    const V qi = hn::Load(d, q + i);
    for (int r = 0; r < kRows; ++r)
      sum[r] = hn::MulAdd(qi, hn::Load(d, rows + r * width + i), sum[r]);
  }
#if HWY_TARGET == HWY_SCALAR || HWY_TARGET == HWY_EMU128
  for (int r = 0; r < kRows; ++r) out[r] = hn::GetLane(hn::SumOfLanes(d, sum[r]));
#else
  const hn::Repartition<double, F32> two;  // pairs of floats move together
  const auto pairs = [&](V a, V b) {
    return hn::Add(hn::InterleaveLower(d, a, b), hn::InterleaveUpper(d, a, b));
  };
  const auto ab = hn::BitCast(two, pairs(sum[0], sum[1]));
  const auto cd = hn::BitCast(two, pairs(sum[2], sum[3]));
  const V fold = hn::Add(hn::BitCast(d, hn::InterleaveLower(two, ab, cd)),
                         hn::BitCast(d, hn::InterleaveUpper(two, ab, cd)));
  alignas(64) float blocks[hn::MaxLanes(F32())];
  hn::Store(fold, d, blocks);
  for (int r = 0; r < kRows; ++r) out[r] = blocks[r];
  for (int b = 4; b < lanes; b += 4)
    for (int r = 0; r < kRows; ++r) out[r] += blocks[b + r];
#endif
}

// o += sum of p[r] * row r.
HWY_INLINE void add_four(const float* p, const float* rows, int width, float* o) {
  const F32 d;
  const V p0 = hn::Set(d, p[0]), p1 = hn::Set(d, p[1]);
  const V p2 = hn::Set(d, p[2]), p3 = hn::Set(d, p[3]);
  for (int i = 0; i < width; i += int(hn::Lanes(d))) {
    V sum = hn::MulAdd(p0, hn::Load(d, rows + i), hn::Load(d, o + i));
    sum = hn::MulAdd(p1, hn::Load(d, rows + width + i), sum);
    sum = hn::MulAdd(p2, hn::Load(d, rows + 2 * width + i), sum);
    sum = hn::MulAdd(p3, hn::Load(d, rows + 3 * width + i), sum);
    hn::Store(sum, d, o + i);
  }
}

// exp(scores - their largest) in place of the scores; the largest and the sum.
void exponentials(float* scores, float& largest, float& sum) {
  const F32 d;
  const int n = int(kPartition), lanes = int(hn::Lanes(d));
  V most = hn::Load(d, scores);
  for (int i = lanes; i < n; i += lanes) most = hn::Max(most, hn::Load(d, scores + i));
  largest = hn::GetLane(hn::MaxOfLanes(d, most));
  sum = 0;
  if (largest == -std::numeric_limits<float>::infinity()) {
    std::fill_n(scores, n, 0.0f);
    return;
  }
  const V largests = hn::Set(d, largest);
  V sums = hn::Zero(d);
  for (int i = 0; i < n; i += lanes) {
    const V s = hn::Sub(hn::Load(d, scores + i), largests);
    // Tokens that a query does not see are at -infinity, where Exp need not be exact.
    const V e = hn::IfThenElseZero(hn::Gt(s, hn::Set(d, -80.0f)), hn::Exp(d, s));
    hn::Store(e, d, scores + i);
    sums = hn::Add(sums, e);
  }
  sum = hn::GetLane(hn::SumOfLanes(d, sums));
}

// Calls use(rows, first, count) for every kRows rows of keys or values, decoded; rows past the last
// are zeros.
template <class Use>
HWY_INLINE void for_decoded(std::span<const KvRun> runs, const std::byte* KvRun::*which,
                            QuantFormat type, int head_dim, float* rows, const Use& use) {
  const std::int64_t bytes = std::int64_t(tensor_bytes(type, std::uint64_t(head_dim), 1));
  const int width = padded(head_dim);
  int filled = 0, first = 0;
  for (const KvRun& run : runs)
    for (TokenCount t = 0; t < run.tokens; ++t) {
      decode(type, run.*which + t * bytes, rows + filled * width, head_dim);
      if (++filled < kRows) continue;
      use(first, kRows);
      first += kRows, filled = 0;
    }
  if (filled == 0) return;
  std::fill_n(rows + filled * width, (kRows - filled) * width, 0.0f);
  use(first, filled);
}

void partition(std::span<const KvRun> runs, TokenCount begin, KvTypes types, int head_dim,
               const Queries& queries, float scale, const Partials& out, AttentionScratch& s) {
  const int width = padded(head_dim), n = int(kPartition);
  constexpr float kUnseen = -std::numeric_limits<float>::infinity();
  s.rows.assign(std::size_t(kRows * width), 0.0f);
  s.q.assign(std::size_t(queries.rows * width), 0.0f);
  s.o.assign(std::size_t(queries.rows * width), 0.0f);
  s.scores.assign(std::size_t(queries.rows * n), kUnseen);
  for (int r = 0; r < queries.rows; ++r)
    for (int i = 0; i < head_dim; ++i)
      s.q[std::size_t(r * width + i)] = queries.q[r * head_dim + i] * scale;

  for_decoded(runs, &KvRun::k, types.k, head_dim, s.rows.data(), [&](int first, int count) {
    for (int r = 0; r < queries.rows; ++r) {
      float each[kRows];
      scores_of_four(s.q.data() + r * width, s.rows.data(), width, each);
      for (int i = 0; i < count; ++i) {
        const TokenCount token = begin + first + i;
        if (token >= queries.from[r] && token < queries.to[r])
          s.scores[std::size_t(r * n + first + i)] = each[i];
      }
    }
  });
  for (int r = 0; r < queries.rows; ++r) exponentials(s.scores.data() + r * n, out.m[r], out.l[r]);
  for_decoded(runs, &KvRun::v, types.v, head_dim, s.rows.data(), [&](int first, int) {
    for (int r = 0; r < queries.rows; ++r)
      add_four(s.scores.data() + r * n + first, s.rows.data(), width, s.o.data() + r * width);
  });
  for (int r = 0; r < queries.rows; ++r)
    std::memcpy(out.o + r * head_dim, s.o.data() + r * width,
                std::size_t(head_dim) * sizeof(float));
}

}  // namespace HWY_NAMESPACE
}  // namespace rigcast::engine::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rigcast::engine::cpu {

HWY_EXPORT(partition);

void attend(std::span<const KvRun> runs, TokenCount begin, KvTypes types, int head_dim,
            const Queries& queries, float scale, const Partials& out, AttentionScratch& scratch) {
  HWY_DYNAMIC_DISPATCH(partition)(runs, begin, types, head_dim, queries, scale, out, scratch);
}

void merge_partials(const Partials& partials, int count, std::int64_t stride, int head_dim,
                    float* out) {
  float most = -std::numeric_limits<float>::infinity();
  for (int p = 0; p < count; ++p) most = std::max(most, partials.m[p * stride]);
  std::fill_n(out, head_dim, 0.0f);
  float sum = 0;
  for (int p = 0; p < count; ++p) {
    const float weight = std::exp(partials.m[p * stride] - most);
    if (!(weight > 0)) continue;  // nothing seen, or too little to count
    sum += weight * partials.l[p * stride];
    const float* o = partials.o + p * stride * head_dim;
    for (int i = 0; i < head_dim; ++i) out[i] += weight * o[i];
  }
  for (int i = 0; i < head_dim; ++i) out[i] /= sum;
}

}  // namespace rigcast::engine::cpu
#endif
