#include "engine/kernels/cpu/attention.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#include "core/base/error.hpp"
#include "engine/kernels/cpu/prefetch.hpp"
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
// many sums as there are registers for, and whole blocks of the quantized types.
constexpr std::size_t kQueries = HWY_TARGET <= HWY_AVX3 ? 4 : 2;
constexpr std::size_t kBlock = 32, kBlockVectors = kBlock / hn::MaxLanes(F32());
constexpr std::size_t kVectors = kBlockVectors < 4 ? 4 : kBlockVectors;
// Vectors that are loaded together at least: those of a block share its scale.
template <QuantFormat kType>
constexpr std::size_t kTogether =
    kType == QuantFormat::kF16 || kType == QuantFormat::kF32 ? 1 : kBlockVectors;

// Rows are padded with zeros to whole vectors of any instruction set.
HWY_INLINE std::size_t padded(std::size_t head_dim) { return (head_dim + 15) / 16 * 16; }

// The scale at the begin of a Q8_0 or Q4_0 block. Four FP16 values are loaded, of which the first
// counts: the other bytes belong to the same block.
HWY_INLINE V scale_of(const std::byte* block) {
  const hn::CappedTag<float, 4> few;
  const hn::Rebind<hwy::float16_t, decltype(few)> half;
  const auto scale =
      hn::PromoteTo(few, hn::LoadU(half, reinterpret_cast<const hwy::float16_t*>(block)));
  return hn::Set(F32(), hn::GetLane(scale));
}

HWY_INLINE void load_q8_0(const std::byte* block, V* to) {
  const F32 d;
  const hn::RebindToSigned<F32> d32;
  const hn::Rebind<std::int8_t, F32> d8;
  const V scale = scale_of(block);
  const auto* q = reinterpret_cast<const std::int8_t*>(block) + 2;
  RIGCAST_UNROLL
  for (std::size_t v = 0; v < kBlockVectors; ++v, q += hn::Lanes(d))
    to[v] = hn::Mul(scale, hn::ConvertTo(d, hn::PromoteTo(d32, hn::LoadU(d8, q))));
}

// Unpacks a Q4_0 block: first the low nibbles of its bytes, then the high ones.
HWY_INLINE void load_q4_0(const std::byte* block, V* to) {
  const F32 d;
  const hn::RebindToSigned<F32> d32;
  const hn::Rebind<std::uint8_t, F32> d8;
  const V scale = scale_of(block);
  const auto* q = reinterpret_cast<const std::uint8_t*>(block) + 2;
#if HWY_TARGET <= HWY_AVX3
  // What a half may stand for, times the scale: 16 values, which fill a vector.
  const V values = hn::Mul(scale, hn::Sub(hn::Iota(d, 0), hn::Set(d, 8.0f)));
  const auto bytes = hn::PromoteTo(d32, hn::LoadU(d8, q));
  const auto look_up = [&](auto at) {
    return hn::TableLookupLanes(values, hn::IndicesFromVec(d, at));
  };
  to[0] = look_up(hn::And(bytes, hn::Set(d32, 15)));
  to[1] = look_up(hn::ShiftRight<4>(bytes));
#else
  const auto value = [&](auto half) {
    return hn::Mul(scale, hn::ConvertTo(d, hn::Sub(half, hn::Set(d32, 8))));
  };
  RIGCAST_UNROLL
  for (std::size_t v = 0; v < kBlockVectors / 2; ++v, q += hn::Lanes(d)) {
    const auto bytes = hn::PromoteTo(d32, hn::LoadU(d8, q));
    to[v] = value(hn::And(bytes, hn::Set(d32, 15)));
    to[kBlockVectors / 2 + v] = value(hn::ShiftRight<4>(bytes));
  }
#endif
}

// kCount vectors from element i of a row on, which need not be aligned; whole blocks of the
// quantized types.
template <QuantFormat kType, std::size_t kCount>
HWY_INLINE void load(const std::byte* row, std::size_t i, V (&to)[kCount]) {
  const F32 d;
  RIGCAST_UNROLL
  for (std::size_t v = 0; v < kCount; v += kTogether<kType>, i += kTogether<kType> * hn::Lanes(d)) {
    if constexpr (kType == QuantFormat::kF16) {
      const hn::Rebind<hwy::float16_t, F32> half;
      to[v] = hn::PromoteTo(d, hn::LoadU(half, reinterpret_cast<const hwy::float16_t*>(row) + i));
    } else if constexpr (kType == QuantFormat::kQ8_0) {
      load_q8_0(row + i / kBlock * 34, to + v);
    } else if constexpr (kType == QuantFormat::kQ4_0) {
      load_q4_0(row + i / kBlock * 18, to + v);
    } else {
      to[v] = hn::LoadU(d, reinterpret_cast<const float*>(row) + i);
    }
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

// Neighbouring rows of keys or values, and what is read next: further on; or where the next run is,
// if these rows end before their prefetches would be of use; or nothing.
struct Rows {
  const std::byte* first;
  std::size_t count, bytes;
  bool goes_on = false;
  const std::byte* next = nullptr;

  HWY_INLINE const std::byte* at(std::size_t row) const { return first + row * bytes; }
  // While four rows from this one on are used.
  HWY_INLINE void prefetch(std::size_t row) const {
    if (goes_on) return prefetch_weights(at(row), kRows * bytes);
    if (next == nullptr) return;
    for (std::size_t line = 0; line < kRows * bytes; line += 64)
      __builtin_prefetch(next + row * bytes + line, 0, 2);
  }
};

// kCount queries, `width` apart, times each of four rows of keys, `apart` apart; scores of a query
// are kPartition apart.
template <QuantFormat kType, std::size_t kCount>
HWY_INLINE void scores_of_four(const float* q, const std::byte* rows, std::size_t apart,
                               std::size_t width, float* scores) {
  constexpr std::size_t kWide = kTogether<kType>;
  const F32 d;
  const std::size_t lanes = hn::Lanes(d);
  V sum[kCount][kRows];
  RIGCAST_UNROLL
  for (auto& query : sum) std::fill_n(query, kRows, hn::Zero(d));
  for (std::size_t i = 0; i < width; i += kWide * lanes) {
    V qi[kCount][kWide];
    RIGCAST_UNROLL
    for (std::size_t j = 0; j < kCount; ++j) {
      RIGCAST_UNROLL
      for (std::size_t v = 0; v < kWide; ++v) qi[j][v] = hn::Load(d, q + j * width + i + v * lanes);
    }
    RIGCAST_UNROLL
    for (std::size_t r = 0; r < kRows; ++r) {
      V row[kWide];
      load<kType>(rows + r * apart, i, row);
      RIGCAST_UNROLL
      for (std::size_t j = 0; j < kCount; ++j) {
        RIGCAST_UNROLL
        for (std::size_t v = 0; v < kWide; ++v) sum[j][r] = hn::MulAdd(qi[j][v], row[v], sum[j][r]);
      }
    }
  }
  RIGCAST_UNROLL
  for (std::size_t j = 0; j < kCount; ++j) store_sums(sum[j], scores + j * kTokens);
}

// Scores of `kCount` queries with the keys of fewer than four rows: one by one, each as four times
// the same, of which one is kept.
template <QuantFormat kType, std::size_t kCount>
HWY_INLINE void scores_of_few(const float* q, const Rows& rows, std::size_t width, float* scores) {
  float four[(kCount - 1) * kTokens + kRows];
  for (std::size_t t = 0; t < rows.count; ++t) {
    scores_of_four<kType, kCount>(q, rows.at(t), 0, width, four);
    for (std::size_t j = 0; j < kCount; ++j) scores[j * kTokens + t] = four[j * kTokens];
  }
}

// Scores of `kCount` queries with the keys of all rows.
template <QuantFormat kType, std::size_t kCount>
HWY_INLINE void scores_of_rows(const float* q, const Rows& rows, std::size_t width, float* scores,
                               bool ask) {
  if (rows.count < kRows) return scores_of_few<kType, kCount>(q, rows, width, scores);
  for (std::size_t t = 0; t < rows.count; t += kRows) {
    // The last four may be partly done before.
    const std::size_t first = std::min(t, rows.count - kRows);
    if (ask) rows.prefetch(first);
    scores_of_four<kType, kCount>(q, rows.at(first), rows.bytes, width, scores + first);
  }
}

// Queries' weights, kPartition apart, of rows of values, and their sums, `width` apart, to which
// these rows' are added or with which they begin.
struct WeightedSum {
  const float* weights;
  Rows rows;
  float* out;
  std::size_t width;
  bool adds;
};

// kWide vectors from element i on: out = or += sum over rows of a query's weight times the row, for
// kCount queries from `query` on.
template <QuantFormat kType, std::size_t kCount, std::size_t kWide>
HWY_INLINE void weighted_sum_columns(const WeightedSum& m, std::size_t query, std::size_t i,
                                     bool ask) {
  const F32 d;
  const std::size_t lanes = hn::Lanes(d);
  const float* weights = m.weights + query * kTokens;
  float* out = m.out + query * m.width + i;
  V sum[kCount][kWide];
  RIGCAST_UNROLL
  for (std::size_t j = 0; j < kCount; ++j) {
    RIGCAST_UNROLL
    for (std::size_t v = 0; v < kWide; ++v)
      sum[j][v] = m.adds ? hn::LoadU(d, out + j * m.width + v * lanes) : hn::Zero(d);
  }
  for (std::size_t t = 0; t < m.rows.count; ++t) {
    if (ask && t % kRows == 0) m.rows.prefetch(t);
    V row[kWide];
    load<kType>(m.rows.at(t), i, row);
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
    for (std::size_t v = 0; v < kWide; ++v) hn::StoreU(sum[j][v], d, out + j * m.width + v * lanes);
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
  for_queries(queries, [&](auto n, std::size_t r) {
    scores_of_rows<kType, n.value>(q + r * width, rows, width, scores + r * kTokens, r == 0);
  });
}

template <QuantFormat kType>
void mix(const WeightedSum& m, std::size_t queries) {
  const std::size_t lanes = hn::Lanes(F32());
  std::size_t i = 0;
  const auto columns = [&](auto wide) {
    for (; i + wide.value * lanes <= m.width; i += wide.value * lanes)
      for_queries(queries, [&](auto n, std::size_t r) {
        weighted_sum_columns<kType, n.value, wide.value>(m, r, i, i == 0 && r == 0);
      });
  };
  columns(std::integral_constant<std::size_t, kVectors>());
  columns(std::integral_constant<std::size_t, kTogether<kType>>());
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
      V together[kTogether<t.value>];
      for (std::size_t i = 0; i < dim;) {
        load<t.value>(row, i, together);
        for (const V v : together) hn::Store(v, F32(), to + i), i += hn::Lanes(F32());
      }
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
QuantFormat readable(QuantFormat type, std::size_t dim, std::size_t queries, Rows& rows,
                     AlignedVector<float>& decoded) {
  constexpr std::size_t kManyQueries = 4 * kQueries;
  const std::size_t width = padded(dim);
  if (width == dim && queries < kManyQueries) return type;
  decoded.resize(kTokens * width);
  for (std::size_t t = 0; t < rows.count; ++t)
    decode(type, rows.at(t), dim, width, decoded.data() + t * width);
  rows = {reinterpret_cast<const std::byte*>(decoded.data()), rows.count, width * sizeof(float)};
  return QuantFormat::kF32;
}

// Calls use(rows of a run, the tokens before it) for all runs. They are read where they are: a copy
// of those of small blocks would take as long as all the rest. `then` is what is read after them.
template <class Use>
HWY_INLINE void for_runs(std::span<const KvRun> runs, const std::byte* KvRun::*part,
                         std::size_t bytes, const std::byte* then, const Use& use) {
  std::size_t before = 0;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const auto tokens = std::size_t(runs[i].tokens);
    use(Rows{runs[i].*part, tokens, bytes, tokens * bytes > kPrefetchFar,
             i + 1 < runs.size() ? runs[i + 1].*part : then},
        before);
    before += tokens;
  }
}

// Scores of tokens that a query does not see, and of those past the last.
void mask(const Queries& queries, TokenCount begin, std::size_t count, float* scores) {
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

// Queries times `scale`, padded.
void place_queries(const Queries& queries, std::size_t dim, std::size_t width, float scale,
                   AlignedVector<float>& to) {
  to.resize(std::size_t(queries.rows) * width);
  for (std::size_t r = 0; r < std::size_t(queries.rows); ++r) {
    const float* q = queries.q + r * dim;
    float* row = to.data() + r * width;
    for (std::size_t i = 0; i < dim; ++i) row[i] = q[i] * scale;
    std::fill(row + dim, row + width, 0.0f);
  }
}

// softcap * tanh(score / softcap), before any score is masked.
void cap_scores(float* scores, std::size_t count, float softcap) {
  const F32 d;
  const V cap = hn::Set(d, softcap), inverse = hn::Set(d, 1.0f / softcap);
  for (std::size_t i = 0; i < count; i += hn::Lanes(d))
    hn::Store(hn::Mul(cap, hn::Tanh(d, hn::Mul(inverse, hn::Load(d, scores + i)))), d, scores + i);
}

void partition(std::span<const KvRun> runs, TokenCount begin, KvTypes types, int head_dim,
               const Queries& queries, const Scores& how, const Partials& out,
               AttentionScratch& s) {
  const std::size_t dim = std::size_t(head_dim), width = padded(dim), n = std::size_t(queries.rows);
  place_queries(queries, dim, width, how.scale, s.q);
  s.scores.resize(n * kTokens);
  float* scores = s.scores.data();

  std::size_t tokens = 0;
  const auto key_bytes = std::size_t(tensor_bytes(types.k, dim, 1)),
             value_bytes = std::size_t(tensor_bytes(types.v, dim, 1));
  for_runs(runs, &KvRun::k, key_bytes, runs[0].v, [&](Rows keys, std::size_t before) {
    tokens = before + keys.count;
    for_type(readable(types.k, dim, n, keys, s.rows), [&](auto type) {
      all_scores<type.value>(s.q.data(), n, keys, width, scores + before);
    });
  });
  if (how.softcap > 0) cap_scores(scores, n * kTokens, how.softcap);
  mask(queries, begin, tokens, scores);
  for (std::size_t r = 0; r < n; ++r) exponentials(scores + r * kTokens, out.m[r], out.l[r]);

  if (width != dim) s.o.resize(n * width);
  float* o = width == dim ? out.o : s.o.data();
  for_runs(runs, &KvRun::v, value_bytes, nullptr, [&](Rows values, std::size_t before) {
    for_type(readable(types.v, dim, n, values, s.rows), [&](auto type) {
      mix<type.value>({scores + before, values, o, width, before > 0}, n);
    });
  });
  if (width == dim) return;
  for (std::size_t r = 0; r < n; ++r)
    std::memcpy(out.o + r * dim, o + r * width, dim * sizeof(float));
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

void merge(const Partials& partials, int count, std::int64_t stride, int head_dim,
           const Partials& out) {
  float most = -std::numeric_limits<float>::infinity();
  for (int p = 0; p < count; ++p) most = std::max(most, partials.m[p * stride]);
  std::fill_n(out.o, head_dim, 0.0f);
  float sum = 0;
  for (int p = 0; p < count; ++p) {
    const float weight = std::exp(partials.m[p * stride] - most);
    if (!(weight > 0)) continue;  // nothing seen, or too little to count
    sum += weight * partials.l[p * stride];
    add_scaled(partials.o + p * stride * head_dim, weight, std::size_t(head_dim), out.o);
  }
  *out.m = most;
  *out.l = sum;
}

}  // namespace HWY_NAMESPACE
}  // namespace rigcast::engine::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rigcast::engine::cpu {

HWY_EXPORT(partition);
HWY_EXPORT(merge);

void attend(std::span<const KvRun> runs, TokenCount begin, KvTypes types, int head_dim,
            const Queries& queries, const Scores& scores, const Partials& out,
            AttentionScratch& scratch) {
  HWY_DYNAMIC_DISPATCH(partition)
  (runs, begin, types, head_dim, queries, scores, out, scratch);
}

void merge_partials(const Partials& partials, int count, std::int64_t stride, int head_dim,
                    const Partials& out) {
  HWY_DYNAMIC_DISPATCH(merge)(partials, count, stride, head_dim, out);
}

void merge_to_output(const Partials& partials, int count, std::int64_t stride, int head_dim,
                     float* out, float sink) {
  float most, sum;
  merge_partials(partials, count, stride, head_dim, {out, &most, &sum});
  // Infinite where the sink outweighs all that a float can say: the output is 0 then.
  sum += std::exp(sink - most);
  for (int i = 0; i < head_dim; ++i) out[i] /= sum;
}

}  // namespace rigcast::engine::cpu
#endif
