#include "engine/kernels/cpu/floats.hpp"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "core/base/error.hpp"
#include "engine/kernels/cpu/prefetch.hpp"
#include "engine/kernels/ref/dequantize.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/kernels/cpu/floats.cpp"
#include <hwy/foreach_target.h>
// after foreach_target
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace rigcast::engine::cpu {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using F32 = hn::ScalableTag<float>;

// Weights [i, i + lanes) of a row as F32. Rows need not be aligned.
template <QuantFormat kFormat>
HWY_INLINE hn::Vec<F32> load_weights(F32 d, const std::byte* row, std::size_t i) {
  if constexpr (kFormat == QuantFormat::kF32) {
    return hn::LoadU(d, reinterpret_cast<const float*>(row) + i);
  } else if constexpr (kFormat == QuantFormat::kF16) {
    const hn::Rebind<hwy::float16_t, F32> half;
    return hn::PromoteTo(d, hn::LoadU(half, reinterpret_cast<const hwy::float16_t*>(row) + i));
  } else {
    const hn::Rebind<std::uint16_t, F32> half;
    const hn::Rebind<std::uint32_t, F32> word;
    const auto bits = hn::LoadU(half, reinterpret_cast<const std::uint16_t*>(row) + i);
    return hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(word, bits)));
  }
}

// One row of weights times kCount rows of activations. `end`: of the rows that this thread
// multiplies.
template <QuantFormat kFormat, std::size_t kCount, bool kAsksAll>
HWY_INLINE void dot(const std::byte* row, const float* x, std::size_t n, const std::byte* end,
                    float* y, std::int64_t stride) {
  const F32 d;
  const std::size_t lanes = hn::Lanes(d);
  constexpr std::size_t kBytes = info(kFormat).block_bytes, kSums = 4;
  hn::Vec<F32> sum[kCount][kSums];  // one alone would wait for itself
  HWY_UNROLL(8)
  for (auto& sums : sum) {
    HWY_UNROLL(8)
    for (std::size_t s = 0; s < kSums; ++s) sums[s] = hn::Zero(d);
  }
  std::size_t i = 0;
  for (; i + kSums * lanes <= n; i += kSums * lanes) {
    if constexpr (kAsksAll)
      prefetch_weights(row + i * kBytes, kSums * lanes * kBytes);
    else
      prefetch_before(end, row + i * kBytes, kSums * lanes * kBytes);
    HWY_UNROLL(8)
    for (std::size_t s = 0; s < kSums; ++s) {
      const auto w = load_weights<kFormat>(d, row, i + s * lanes);
      HWY_UNROLL(8)
      for (std::size_t t = 0; t < kCount; ++t)
        sum[t][s] = hn::MulAdd(w, hn::LoadU(d, x + t * n + i + s * lanes), sum[t][s]);
    }
  }
  for (; i + lanes <= n; i += lanes) {
    const auto w = load_weights<kFormat>(d, row, i);
    HWY_UNROLL(8)
    for (std::size_t t = 0; t < kCount; ++t)
      sum[t][0] = hn::MulAdd(w, hn::LoadU(d, x + t * n + i), sum[t][0]);
  }
  for (std::size_t t = 0; t < kCount; ++t) {
    const auto all = hn::Add(hn::Add(sum[t][0], sum[t][1]), hn::Add(sum[t][2], sum[t][3]));
    float total = hn::GetLane(hn::SumOfLanes(d, all));
    for (std::size_t k = i; k < n; ++k) {
      float w;
      ref::dequantize(kFormat, row + k * kBytes, {&w, 1});
      total += w * x[t * n + k];
    }
    y[std::int64_t(t) * stride] = total;
  }
}

// Sums of several rows fill the registers: 32 of AVX-512 and Arm, 16 of older x86.
constexpr std::size_t kTogether = HWY_ARCH_X86 && HWY_TARGET > HWY_AVX3 ? 2 : 4;

template <QuantFormat kFormat>
void rows_of(const Matrix& w, std::int64_t first, std::int64_t last, const float* x,
             std::int64_t count, float* y, std::int64_t stride) {
  const std::byte* const end = w.row(last);
  const std::size_t n = std::size_t(w.columns);
  prefetch_first_rows(w.row(first), end);
  for (std::int64_t i = first; i < last; ++i) {
    const bool asks = can_prefetch(w.row(i + 1), end);
    std::int64_t t = 0;
    const auto multiply = [&](auto together) {
      constexpr std::size_t kCount = decltype(together)::value;
      for (; t + std::int64_t(kCount) <= count; t += std::int64_t(kCount)) {
        const float* const from = x + std::size_t(t) * n;
        float* const to = y + t * stride + i;
        asks&& t == 0 ? dot<kFormat, kCount, true>(w.row(i), from, n, end, to, stride)
                      : dot<kFormat, kCount, false>(w.row(i), from, n, end, to, stride);
      }
    };
    multiply(std::integral_constant<std::size_t, kTogether>());
    multiply(std::integral_constant<std::size_t, 1>());
  }
}

void rows(const Matrix& w, std::int64_t first, std::int64_t last, const float* x,
          std::int64_t count, float* y, std::int64_t stride) {
  switch (w.format) {
    case QuantFormat::kF32: return rows_of<QuantFormat::kF32>(w, first, last, x, count, y, stride);
    case QuantFormat::kF16: return rows_of<QuantFormat::kF16>(w, first, last, x, count, y, stride);
    case QuantFormat::kBF16:
      return rows_of<QuantFormat::kBF16>(w, first, last, x, count, y, stride);
    default: RIGCAST_ASSERT(!"a format of floats");
  }
}

template <QuantFormat kFormat>
void decode_row(const std::byte* row, float* out, std::size_t n) {
  const F32 d;
  std::size_t i = 0;
  for (; i + hn::Lanes(d) <= n; i += hn::Lanes(d))
    hn::StoreU(load_weights<kFormat>(d, row, i), d, out + i);
  if (i < n) ref::dequantize(kFormat, row + i * info(kFormat).block_bytes, {out + i, n - i});
}

// Weights [begin, begin + out.size()) of a row; both are whole blocks of the format.
void decode(const Matrix& w, std::int64_t row, std::int64_t begin, std::span<float> out) {
  const QuantFormatInfo& f = info(w.format);
  const std::byte* const from = w.row(row) + begin / f.block_elements * f.block_bytes;
  switch (w.format) {
    case QuantFormat::kF32: return decode_row<QuantFormat::kF32>(from, out.data(), out.size());
    case QuantFormat::kF16: return decode_row<QuantFormat::kF16>(from, out.data(), out.size());
    case QuantFormat::kBF16: return decode_row<QuantFormat::kBF16>(from, out.data(), out.size());
    default: RIGCAST_ASSERT(!"a format of floats");
  }
}

// ---- Batches: tiles of a few rows of weights by two vectors of tokens, which lie side by side.
// Weights are broadcast one by one, so that they need no transposing.

constexpr std::int64_t kChunk = FloatBatch::kChunk, kGroup = FloatBatch::kGroup;

// Half a group at most, so that two vectors never reach beyond one.
using Tokens = hn::CappedTag<float, std::size_t(kGroup / 2)>;

// Two sums for each row fill the registers: 32 of AVX-512 and Arm, 16 of older x86.
constexpr std::int64_t kTileRows = HWY_ARCH_X86 && HWY_TARGET > HWY_AVX3 ? 6 : 8;

constexpr std::int64_t kLine = FloatBatch::kLine;

// sums[row][token] = or += w[row] * x[token] over a chunk of columns. The sum of a chunk begins
// anew: sums that come from afar are not waited for.
template <std::size_t kVectors>
void tile(const float* w, const float* x, std::int64_t columns, float* sums, bool adds) {
  constexpr auto kRows = std::size_t(kTileRows);
  const Tokens d;
  const std::size_t lanes = hn::Lanes(d);
  hn::Vec<Tokens> sum[kRows][kVectors];
  HWY_UNROLL(8)
  for (std::size_t r = 0; r < kRows; ++r) {
    HWY_UNROLL(8)
    for (std::size_t v = 0; v < kVectors; ++v) sum[r][v] = hn::Zero(d);
  }
  for (std::int64_t k = 0; k < columns; ++k, x += kGroup) {
    hn::Vec<Tokens> tokens[kVectors];
    HWY_UNROLL(8)
    for (std::size_t v = 0; v < kVectors; ++v) tokens[v] = hn::Load(d, x + v * lanes);
    HWY_UNROLL(8)
    for (std::size_t r = 0; r < kRows; ++r) {
      const auto each = hn::Set(d, w[std::int64_t(r) * kChunk + k]);
      HWY_UNROLL(8)
      for (std::size_t v = 0; v < kVectors; ++v) sum[r][v] = hn::MulAdd(each, tokens[v], sum[r][v]);
    }
  }
  HWY_UNROLL(8)
  for (std::size_t r = 0; r < kRows; ++r) {
    HWY_UNROLL(8)
    for (std::size_t v = 0; v < kVectors; ++v) {
      float* const to = sums + r * kGroup + v * lanes;
      hn::Store(adds ? hn::Add(hn::Load(d, to), sum[r][v]) : sum[r][v], d, to);
    }
  }
}

// All tokens of a group that the batch has.
void tile(const float* w, const float* x, std::int64_t columns, std::int64_t tokens, float* sums,
          bool adds) {
  const auto lanes = std::int64_t(hn::Lanes(Tokens()));
  for (std::int64_t t = 0; t < tokens; t += 2 * lanes)
    if (tokens - t > lanes)
      tile<2>(w, x + t, columns, sums + t, adds);
    else
      tile<1>(w, x + t, columns, sums + t, adds);
}

// to[i * stride + r] = rows[r][i] for all of a line's rows and i < count. Cache lines are written
// in one go: apart by a power of two, they share few places of a cache.
void transpose_lines(const float* const (&rows)[kLine], std::int64_t count, float* to,
                     std::int64_t stride) {
  const Tokens d;
  const auto lanes = std::int64_t(hn::Lanes(d));
  alignas(64) float fours[kLine / 4][kGroup / 2][4];
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes, to += lanes * stride) {
    for (std::int64_t r = 0; r < kLine; r += 4)
      hn::StoreInterleaved4(hn::LoadU(d, rows[r] + i), hn::LoadU(d, rows[r + 1] + i),
                            hn::LoadU(d, rows[r + 2] + i), hn::LoadU(d, rows[r + 3] + i), d,
                            fours[r / 4][0]);
    for (std::int64_t lane = 0; lane < lanes; ++lane)
      for (std::int64_t r = 0; r < kLine; r += 4)
        std::memcpy(to + lane * stride + r, fours[r / 4][lane], 4 * sizeof(float));
  }
  for (; i < count; ++i, to += stride)
    for (std::int64_t r = 0; r < kLine; ++r) to[r] = rows[r][i];
}

// y[t * stride + i] = sums[i][t] for `rows` rows and the tokens of a group. There is room for sums
// of whole lines of rows.
void store(const float* sums, std::int64_t rows, std::int64_t tokens, float* y,
           std::int64_t stride) {
  const float* line[kLine];
  for (std::int64_t i = 0; i < rows; i += kLine) {
    for (std::int64_t r = 0; r < kLine; ++r) line[r] = sums + (i + r) * kGroup;
    if (rows - i >= kLine) {
      transpose_lines(line, tokens, y + i, stride);
      continue;
    }
    alignas(64) float last[kGroup][kLine];
    transpose_lines(line, tokens, last[0], kLine);
    for (std::int64_t t = 0; t < tokens; ++t)
      std::memcpy(y + t * stride + i, last[t], std::size_t(rows - i) * sizeof(float));
  }
}

void set_rows(FloatBatch& x, std::int64_t first, std::int64_t count, const float* from) {
  const float* line[kLine];
  for (std::int64_t begin = 0; begin < x.columns; begin += kChunk) {
    for (std::int64_t r = 0; r < kLine; ++r)
      line[r] = from + std::min(r, count - 1) * x.columns + begin;
    transpose_lines(line, x.chunk_columns(begin),
                    x.x.data() + x.at(begin, first / kGroup) + first % kGroup, kGroup);
  }
}

// The part of [0, n) that is the `index`-th's of `count`.
struct Range {
  std::int64_t begin, end;
};
Range range_of(std::int64_t n, std::int64_t index, std::int64_t count) {
  return {n * index / count, n * (index + 1) / count};
}

void prefetch(const void* from, std::int64_t bytes) {
  for (std::int64_t at = 0; at < bytes; at += 64)
    __builtin_prefetch(static_cast<const std::byte*>(from) + at, 0, 2);
}

// A chunk of columns of one group stays in the L1 cache while all rows pass, and that of the rows,
// decoded, in the L2 cache while all groups do. Meanwhile memory is asked for what comes next: with
// every tile for a part of the next group, and for the next columns of some of the tile's rows.
class Batch {
 public:
  Batch(const Matrix& w, std::int64_t first, std::int64_t last, const FloatRows& x, FloatScratch& s,
        float* y, std::int64_t stride)
      : w_(w),
        x_(x),
        s_(s),
        first_(first),
        rows_(last - first),
        tiles_((rows_ + kTileRows - 1) / kTileRows),
        group_sums_((rows_ + std::max(kTileRows, kLine)) * kGroup),
        y_(y),
        stride_(stride) {
    resize_at_least(s.weights, std::size_t(tiles_ * kTileRows * kChunk));
    resize_at_least(s.sums, std::size_t(x.groups() * group_sums_));
  }

  void multiply() {
    for (std::int64_t begin = 0; begin < w_.columns; begin += kChunk) {
      for (std::int64_t i = 0; i < rows_; ++i)
        decode(w_, first_ + i, begin,
               {s_.weights.data() + i * kChunk, std::size_t(x_.batch->chunk_columns(begin))});
      for (std::int64_t g = 0; g < x_.groups(); ++g) multiply_group(begin, g);
    }
  }

 private:
  void multiply_group(std::int64_t begin, std::int64_t g) {
    const std::int64_t columns = x_.batch->chunk_columns(begin);
    const float* const x = x_.columns(begin, g);
    float* const sums = s_.sums.data() + g * group_sums_;
    for (std::int64_t i = 0; i < tiles_; ++i) {
      const auto [from, to] = range_of(columns * kGroup, i, tiles_);
      prefetch(x + columns * kGroup + from, (to - from) * std::int64_t(sizeof(float)));
      prefetch_rows(begin + columns, i * kTileRows, range_of(kTileRows, g, x_.groups()));
      tile(s_.weights.data() + i * kTileRows * kChunk, x, columns, x_.tokens(g),
           sums + i * kTileRows * kGroup, begin > 0);
    }
    if (begin + columns == w_.columns)
      store(sums, rows_, x_.tokens(g), y_ + g * kGroup * stride_ + first_, stride_);
  }

  // Columns from `begin` on of some of a tile's rows.
  void prefetch_rows(std::int64_t begin, std::int64_t tile, Range rows) const {
    if (begin == w_.columns) return;
    const std::int64_t bytes = w_.row_bytes() / w_.columns;
    for (std::int64_t i = tile + rows.begin; i < std::min(tile + rows.end, rows_); ++i)
      prefetch(w_.row(first_ + i) + begin * bytes, x_.batch->chunk_columns(begin) * bytes);
  }

  const Matrix& w_;
  const FloatRows& x_;
  FloatScratch& s_;
  std::int64_t first_, rows_, tiles_, group_sums_;
  float* y_;
  std::int64_t stride_;
};

void batch(const Matrix& w, std::int64_t first, std::int64_t last, const FloatRows& x, float* y,
           std::int64_t stride, FloatScratch& s) {
  Batch(w, first, last, x, s, y, stride).multiply();
}

}  // namespace HWY_NAMESPACE
}  // namespace rigcast::engine::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rigcast::engine::cpu {

HWY_EXPORT(rows);
HWY_EXPORT(batch);
HWY_EXPORT(set_rows);

void multiply_row_f32(const Matrix& w, std::int64_t first, std::int64_t last, const float* x,
                      float* y) {
  HWY_DYNAMIC_DISPATCH(rows)(w, first, last, x, 1, y - first, 0);
}

void multiply_few_f32(const Matrix& w, std::int64_t first, std::int64_t last, const float* x,
                      std::int64_t count, float* y, std::int64_t stride) {
  HWY_DYNAMIC_DISPATCH(rows)(w, first, last, x, count, y, stride);
}

void multiply_batch_f32(const Matrix& w, std::int64_t first, std::int64_t last, const FloatRows& x,
                        float* y, std::int64_t stride, FloatScratch& scratch) {
  HWY_DYNAMIC_DISPATCH(batch)(w, first, last, x, y, stride, scratch);
}

void FloatBatch::resize(std::int64_t columns_, std::int64_t rows_) {
  columns = columns_;
  rows = rows_;
  resize_at_least(x, std::size_t(groups() * kGroup * columns));
}

void FloatBatch::set_row(std::int64_t index, std::span<const float> row) {
  for (std::int64_t begin = 0; begin < columns; begin += kChunk) {
    float* to = x.data() + at(begin, index / kGroup) + index % kGroup;
    for (const float v : row.subspan(std::size_t(begin), std::size_t(chunk_columns(begin))))
      *to = v, to += kGroup;
  }
}

void FloatBatch::set_rows(std::int64_t first, std::span<const float> values) {
  const std::int64_t count = std::int64_t(values.size()) / columns;
  RIGCAST_ASSERT(first % kLine == 0 && (count == kLine || (count > 0 && first + count == rows)));
  HWY_DYNAMIC_DISPATCH(set_rows)(*this, first, count, values.data());
}

}  // namespace rigcast::engine::cpu
#endif
