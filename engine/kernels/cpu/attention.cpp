#include "engine/kernels/cpu/attention.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#include "core/error.hpp"
#include "engine/kernels/ref/dequantize.hpp"

// Sums in arrays stay in registers only where loops over them are unrolled early.
#define RIGCAST_UNROLL _Pragma("GCC unroll 8")

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

using F32 = hn::CappedTag<float, 16>;  // half a block of the quantized types, at most
using V = hn::Vec<F32>;

constexpr std::size_t kTokens = kPartition;
constexpr std::size_t kRows = 4;  // cache rows whose scores are computed at once
// Queries that share a reading of the cache, and vectors of a value that are summed at once: as
// many sums as there are registers for.
constexpr bool kManyRegisters = HWY_TARGET <= HWY_AVX3;
constexpr std::size_t kQueries = kManyRegisters ? 4 : 2, kVectors = kManyRegisters ? 4 : 2;
// Cache rows ahead of what is read that are asked for, as ask_ahead() does.
constexpr std::size_t kAhead = 64, kAgain = 32;

// Rows are padded with zeros to whole vectors of any instruction set.
HWY_INLINE std::size_t padded(std::size_t head_dim) { return (head_dim + 15) / 16 * 16; }

// The scale that a block of Q8_0 or Q4_0 begins with. Four halves are read where one counts: the
// rest is the block's own.
HWY_INLINE V scale_of(const std::byte* block) {
  const hn::CappedTag<float, 4> few;
  const hn::Rebind<hwy::float16_t, decltype(few)> half;
  const auto scale =
      hn::PromoteTo(few, hn::LoadU(half, reinterpret_cast<const hwy::float16_t*>(block)));
  return hn::Set(F32(), hn::GetLane(scale));
}

// Elements [i, i + lanes) of a row, which need not be aligned.
template <QuantFormat kType>
HWY_INLINE V load(const std::byte* row, std::size_t i) {
  const F32 d;
  const hn::RebindToSigned<F32> d32;
  const hn::Rebind<std::int8_t, F32> d8;
  const std::size_t at = i % 32;  // in its block
  if constexpr (kType == QuantFormat::kF16) {
    const hn::Rebind<hwy::float16_t, F32> half;
    return hn::PromoteTo(d, hn::LoadU(half, reinterpret_cast<const hwy::float16_t*>(row) + i));
  } else if constexpr (kType == QuantFormat::kQ8_0) {
    const std::byte* block = row + i / 32 * 34;
    const auto* q = reinterpret_cast<const std::int8_t*>(block) + 2 + at;
    return hn::Mul(scale_of(block), hn::ConvertTo(d, hn::PromoteTo(d32, hn::LoadU(d8, q))));
  } else if constexpr (kType == QuantFormat::kQ4_0) {
    const std::byte* block = row + i / 32 * 18;  // low halves of its bytes first
    const auto* q = reinterpret_cast<const std::int8_t*>(block) + 2 + at % 16;
    const auto bytes = hn::PromoteTo(d32, hn::LoadU(d8, q));
    const auto wide = hn::And(at < 16 ? bytes : hn::ShiftRight<4>(bytes), hn::Set(d32, 15));
    return hn::Mul(scale_of(block), hn::ConvertTo(d, hn::Sub(wide, hn::Set(d32, 8))));
  } else {
    return hn::LoadU(d, reinterpret_cast<const float*>(row) + i);
  }
}

#if HWY_TARGET != HWY_SCALAR && HWY_TARGET != HWY_EMU128
// Adds blocks of four lanes until one is left.
template <class D>
HWY_INLINE void store_sum_of_blocks(D d, hn::Vec<D> v, float* out) {
  if constexpr (hn::MaxLanes(d) <= 4) {
    hn::StoreU(v, d, out);
  } else {
    const hn::Half<D> half;
    store_sum_of_blocks(half, hn::Add(hn::LowerHalf(half, v), hn::UpperHalf(half, v)), out);
  }
}
#endif

// The sums of the lanes of four vectors. They are folded together: lanes of one are dear to add.
HWY_INLINE void store_sums(const V (&sum)[kRows], float* out) {
  const F32 d;
#if HWY_TARGET == HWY_SCALAR || HWY_TARGET == HWY_EMU128
  for (std::size_t r = 0; r < kRows; ++r) out[r] = hn::GetLane(hn::SumOfLanes(d, sum[r]));
#else
  const hn::Repartition<double, F32> two;  // pairs of floats move together
  const auto pairs = [&](V a, V b) {
    return hn::Add(hn::InterleaveLower(d, a, b), hn::InterleaveUpper(d, a, b));
  };
  const auto ab = hn::BitCast(two, pairs(sum[0], sum[1]));
  const auto cd = hn::BitCast(two, pairs(sum[2], sum[3]));
  store_sum_of_blocks(d,
                      hn::Add(hn::BitCast(d, hn::InterleaveLower(two, ab, cd)),
                              hn::BitCast(d, hn::InterleaveUpper(two, ab, cd))),
                      out);
#endif
}

// Rows of the partition, and behind them those that are read next. Rows of one head are short runs
// of memory, so they are asked for ahead.
struct Rows {
  const std::byte* const* at;
  std::size_t count, all, bytes;

  // kRows rows from `row` on, as if they were neighbours, which but few are not.
  HWY_INLINE void ask(std::size_t row) const {
    if (row >= all) return;
    for (std::size_t line = 0; line < kRows * bytes; line += 64)
      __builtin_prefetch(at[row] + line, 0, 2);
  }
  HWY_INLINE void ask_ahead(std::size_t first) const {
    ask(first + kAhead);
    ask(first + kAgain);
  }
};

// kCount queries, `width` apart, times each of four rows of keys; scores of a query are kPartition
// apart.
template <QuantFormat kType, std::size_t kCount>
HWY_INLINE void scores_of_four(const float* q, const std::byte* const* rows, std::size_t width,
                               float* scores) {
  const F32 d;
  const std::size_t lanes = hn::Lanes(d);
  V sum[kCount][kRows];
  RIGCAST_UNROLL
  for (auto& query : sum) std::fill_n(query, kRows, hn::Zero(d));
  for (std::size_t i = 0; i < width; i += lanes) {
    V qi[kCount];
    RIGCAST_UNROLL
    for (std::size_t j = 0; j < kCount; ++j) qi[j] = hn::Load(d, q + j * width + i);
    RIGCAST_UNROLL
    for (std::size_t r = 0; r < kRows; ++r) {
      const V row = load<kType>(rows[r], i);
      RIGCAST_UNROLL
      for (std::size_t j = 0; j < kCount; ++j) sum[j][r] = hn::MulAdd(qi[j], row, sum[j][r]);
    }
  }
  RIGCAST_UNROLL
  for (std::size_t j = 0; j < kCount; ++j) store_sums(sum[j], scores + j * kTokens);
}

// kWide vectors from element i on: o = sum over `count` rows of values of a query's weight times
// the row, for kCount queries.
template <QuantFormat kType, std::size_t kCount, std::size_t kWide>
HWY_INLINE void mix_columns(const float* weights, const Rows& rows, std::size_t i,
                            std::size_t width, float* o, bool ask) {
  const F32 d;
  const std::size_t lanes = hn::Lanes(d);
  V sum[kCount][kWide];
  RIGCAST_UNROLL
  for (auto& query : sum) std::fill_n(query, kWide, hn::Zero(d));
  for (std::size_t t = 0; t < rows.count; ++t) {
    if (ask && t % kRows == 0) rows.ask_ahead(t);
    V row[kWide];
    RIGCAST_UNROLL
    for (std::size_t v = 0; v < kWide; ++v) row[v] = load<kType>(rows.at[t], i + v * lanes);
    RIGCAST_UNROLL
    for (std::size_t j = 0; j < kCount; ++j) {
      const V weight = hn::Set(d, weights[j * kTokens + t]);
      RIGCAST_UNROLL
      for (std::size_t v = 0; v < kWide; ++v) sum[j][v] = hn::MulAdd(weight, row[v], sum[j][v]);
    }
  }
  RIGCAST_UNROLL
  for (std::size_t j = 0; j < kCount; ++j) {
    RIGCAST_UNROLL
    for (std::size_t v = 0; v < kWide; ++v) hn::Store(sum[j][v], d, o + j * width + i + v * lanes);
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

// Calls use(std::integral_constant<std::size_t, n>, first query) for all queries, kQueries at once
// and then what is left.
template <class Use>
HWY_INLINE void for_queries(std::size_t queries, const Use& use) {
  std::size_t r = 0;
  for (; r + kQueries <= queries; r += kQueries)
    use(std::integral_constant<std::size_t, kQueries>(), r);
  switch (queries - r) {
    case 3: return use(std::integral_constant<std::size_t, 3>(), r);
    case 2: return use(std::integral_constant<std::size_t, 2>(), r);
    case 1: return use(std::integral_constant<std::size_t, 1>(), r);
    default: return;
  }
}

template <QuantFormat kType>
void all_scores(const float* q, std::size_t queries, const Rows& rows, std::size_t width,
                float* scores) {
  for (std::size_t row = 0; row < kAhead; row += kRows) rows.ask(row);
  for (std::size_t first = 0; first < rows.count; first += kRows) {
    rows.ask_ahead(first);
    const std::byte* four[kRows];  // past the last row: that one again
    for (std::size_t i = 0; i < kRows; ++i) four[i] = rows.at[std::min(first + i, rows.count - 1)];
    for_queries(queries, [&](auto n, std::size_t r) {
      scores_of_four<kType, n.value>(q + r * width, four, width, scores + r * kTokens + first);
    });
  }
}

template <QuantFormat kType>
void mix(const float* weights, std::size_t queries, const Rows& rows, std::size_t width, float* o) {
  const std::size_t lanes = hn::Lanes(F32());
  for_queries(queries, [&](auto n, std::size_t r) {
    const float* own = weights + r * kTokens;
    std::size_t i = 0;
    for (; i + kVectors * lanes <= width; i += kVectors * lanes)
      mix_columns<kType, n.value, kVectors>(own, rows, i, width, o + r * width, i == 0 && r == 0);
    for (; i < width; i += lanes)
      mix_columns<kType, n.value, 1>(own, rows, i, width, o + r * width, i == 0 && r == 0);
  });
}

// Calls use(std::integral_constant<QuantFormat, type>).
template <class Use>
void for_type(QuantFormat type, const Use& use) {
  switch (type) {
    case QuantFormat::kF16: return use(std::integral_constant<QuantFormat, QuantFormat::kF16>());
    case QuantFormat::kQ8_0: return use(std::integral_constant<QuantFormat, QuantFormat::kQ8_0>());
    case QuantFormat::kQ4_0: return use(std::integral_constant<QuantFormat, QuantFormat::kQ4_0>());
    default: return use(std::integral_constant<QuantFormat, QuantFormat::kF32>());
  }
}

// A row as F32, with zeros up to whole vectors.
void decode(QuantFormat type, const std::byte* row, std::size_t dim, std::size_t width, float* to) {
  if (width == dim) {
    for_type(type, [&](auto t) {
      for (std::size_t i = 0; i < dim; i += hn::Lanes(F32()))
        hn::Store(load<t.value>(row, i), F32(), to + i);
    });
    return;
  }
  if (type == QuantFormat::kF16)
    ref::dequantize(type, row, {to, dim});
  else
    std::memcpy(to, row, dim * sizeof(float));
  std::fill(to + dim, to + width, 0.0f);
}

// What the rows are read as: their own type; or F32, which `rows` then point to, where a row does
// not end with a vector, or where so many queries meet it that decoding it once is less work.
QuantFormat readable(QuantFormat type, std::size_t dim, std::size_t queries, std::size_t count,
                     const std::byte** rows, AlignedVector<float>& decoded) {
  constexpr std::size_t kManyQueries = 4 * kQueries;
  const std::size_t width = padded(dim);
  if (width == dim && queries < kManyQueries) return type;
  decoded.resize(kTokens * width);
  for (std::size_t t = 0; t < count; ++t) {
    float* to = decoded.data() + t * width;
    decode(type, rows[t], dim, width, to);
    rows[t] = reinterpret_cast<const std::byte*>(to);
  }
  return QuantFormat::kF32;
}

// Scores of tokens that a query does not see, and of those past the last.
void hide(const Queries& queries, TokenCount begin, std::size_t count, float* scores) {
  for (int r = 0; r < queries.rows; ++r, scores += kPartition) {
    const auto place = [&](TokenCount t) {
      return std::clamp<TokenCount>(t - begin, 0, TokenCount(count));
    };
    constexpr float kUnseen = -std::numeric_limits<float>::infinity();
    const TokenCount from = place(queries.from[r]), to = std::max(from, place(queries.to[r]));
    std::fill(scores, scores + from, kUnseen);
    std::fill(scores + to, scores + kPartition, kUnseen);
  }
}

void partition(std::span<const KvRun> runs, TokenCount begin, KvTypes types, int head_dim,
               const Queries& queries, float scale, const Partials& out, AttentionScratch& s,
               std::span<const KvRun> next) {
  const std::size_t dim = std::size_t(head_dim), width = padded(dim), n = std::size_t(queries.rows);
  s.q.assign(n * width, 0.0f);
  s.o.resize(n * width);
  s.scores.resize(n * kTokens);
  for (std::size_t r = 0; r < n; ++r)
    for (std::size_t i = 0; i < dim; ++i) s.q[r * width + i] = queries.q[r * dim + i] * scale;

  const std::byte* rows[2 * kTokens + kAhead];  // keys, values, the first keys of what is next
  const std::size_t k_bytes = std::size_t(tensor_bytes(types.k, dim, 1)),
                    v_bytes = std::size_t(tensor_bytes(types.v, dim, 1));
  std::size_t count = 0;
  for (const KvRun& run : runs)
    for (std::size_t t = 0; t < std::size_t(run.tokens); ++t) rows[count++] = run.k + t * k_bytes;
  std::size_t all = count;
  for (const KvRun& run : runs)
    for (std::size_t t = 0; t < std::size_t(run.tokens); ++t) rows[all++] = run.v + t * v_bytes;
  for (const KvRun& run : next)
    for (std::size_t t = 0; t < std::size_t(run.tokens) && all < 2 * count + kAhead; ++t)
      rows[all++] = run.k + t * k_bytes;

  const Rows keys{rows, count, 2 * count, k_bytes};
  for_type(readable(types.k, dim, n, count, rows, s.rows),
           [&](auto type) { all_scores<type.value>(s.q.data(), n, keys, width, s.scores.data()); });
  hide(queries, begin, count, s.scores.data());
  for (std::size_t r = 0; r < n; ++r)
    exponentials(s.scores.data() + r * kTokens, out.m[r], out.l[r]);
  const Rows values{rows + count, count, all - count, v_bytes};
  for_type(readable(types.v, dim, n, count, rows + count, s.rows),
           [&](auto type) { mix<type.value>(s.scores.data(), n, values, width, s.o.data()); });
  for (std::size_t r = 0; r < n; ++r)
    std::memcpy(out.o + r * dim, s.o.data() + r * width, dim * sizeof(float));
}

// out += weight * o.
HWY_INLINE void add_scaled(const float* o, float weight, std::size_t n, float* out) {
  const F32 d;
  std::size_t i = 0;
  for (; i + hn::Lanes(d) <= n; i += hn::Lanes(d))
    hn::StoreU(hn::MulAdd(hn::Set(d, weight), hn::LoadU(d, o + i), hn::LoadU(d, out + i)), d,
               out + i);
  for (; i < n; ++i) out[i] = std::fma(weight, o[i], out[i]);
}

void merge(const Partials& partials, int count, std::int64_t stride, int head_dim, float* out) {
  float most = -std::numeric_limits<float>::infinity();
  for (int p = 0; p < count; ++p) most = std::max(most, partials.m[p * stride]);
  std::fill_n(out, head_dim, 0.0f);
  float sum = 0;
  for (int p = 0; p < count; ++p) {
    const float weight = std::exp(partials.m[p * stride] - most);
    if (!(weight > 0)) continue;  // nothing seen, or too little to count
    sum += weight * partials.l[p * stride];
    add_scaled(partials.o + p * stride * head_dim, weight, std::size_t(head_dim), out);
  }
  for (int i = 0; i < head_dim; ++i) out[i] /= sum;
}

}  // namespace HWY_NAMESPACE
}  // namespace rigcast::engine::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rigcast::engine::cpu {

HWY_EXPORT(partition);
HWY_EXPORT(merge);

void attend(std::span<const KvRun> runs, TokenCount begin, KvTypes types, int head_dim,
            const Queries& queries, float scale, const Partials& out, AttentionScratch& scratch,
            std::span<const KvRun> next) {
  HWY_DYNAMIC_DISPATCH(partition)
  (runs, begin, types, head_dim, queries, scale, out, scratch, next);
}

void merge_partials(const Partials& partials, int count, std::int64_t stride, int head_dim,
                    float* out) {
  HWY_DYNAMIC_DISPATCH(merge)(partials, count, stride, head_dim, out);
}

}  // namespace rigcast::engine::cpu
#endif
