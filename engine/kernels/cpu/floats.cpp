#include "engine/kernels/cpu/floats.hpp"

#include <algorithm>
#include <cstring>

#include "engine/kernels/cpu/ask_ahead.hpp"
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

// `end`: of the rows that this thread multiplies.
template <QuantFormat kFormat, bool kAsksAll>
float dot(const std::byte* row, const float* x, std::size_t n, const std::byte* end) {
  const F32 d;
  const std::size_t lanes = hn::Lanes(d);
  constexpr std::size_t kBytes = info(kFormat).block_bytes;
  auto a = hn::Zero(d), b = a, c = a, e = a;  // one alone would wait for itself
  std::size_t i = 0;
  for (; i + 4 * lanes <= n; i += 4 * lanes) {
    if constexpr (kAsksAll)
      ask_ahead(row + i * kBytes, 4 * lanes * kBytes);
    else
      ask_ahead_before(end, row + i * kBytes, 4 * lanes * kBytes);
    a = hn::MulAdd(load_weights<kFormat>(d, row, i), hn::LoadU(d, x + i), a);
    b = hn::MulAdd(load_weights<kFormat>(d, row, i + lanes), hn::LoadU(d, x + i + lanes), b);
    c = hn::MulAdd(load_weights<kFormat>(d, row, i + 2 * lanes), hn::LoadU(d, x + i + 2 * lanes),
                   c);
    e = hn::MulAdd(load_weights<kFormat>(d, row, i + 3 * lanes), hn::LoadU(d, x + i + 3 * lanes),
                   e);
  }
  for (; i + lanes <= n; i += lanes)
    a = hn::MulAdd(load_weights<kFormat>(d, row, i), hn::LoadU(d, x + i), a);
  float sum = hn::GetLane(hn::SumOfLanes(d, hn::Add(hn::Add(a, b), hn::Add(c, e))));
  for (; i < n; ++i) {
    float w;
    ref::dequantize(kFormat, row + i * info(kFormat).block_bytes, {&w, 1});
    sum += w * x[i];
  }
  return sum;
}

// Formats without a kernel of their own: block by block through the reference decoder.
float dot_decoded(QuantFormat format, const std::byte* row, const float* x, std::size_t n) {
  constexpr std::size_t kMost = 256;
  float w[kMost];
  const std::size_t step = info(format).block_elements;
  float sum = 0;
  for (std::size_t i = 0; i < n; i += step, row += info(format).block_bytes) {
    ref::dequantize(format, row, {w, step});
    const auto* const decoded = reinterpret_cast<const std::byte*>(w);
    sum += dot<QuantFormat::kF32, false>(decoded, x + i, step, decoded);
  }
  return sum;
}

template <bool kAsksAll>
float dot(const Matrix& w, std::int64_t row, const float* x, const std::byte* end) {
  const std::size_t n = std::size_t(w.columns);
  switch (w.format) {
    case QuantFormat::kF32: return dot<QuantFormat::kF32, kAsksAll>(w.row(row), x, n, end);
    case QuantFormat::kF16: return dot<QuantFormat::kF16, kAsksAll>(w.row(row), x, n, end);
    case QuantFormat::kBF16: return dot<QuantFormat::kBF16, kAsksAll>(w.row(row), x, n, end);
    default: return dot_decoded(w.format, w.row(row), x, n);
  }
}

void rows(const Matrix& w, std::int64_t first, std::int64_t last, const float* x, float* y) {
  const std::byte* const end = w.row(last);
  ask_first(w.row(first), end);
  for (std::int64_t i = first; i < last; ++i)
    y[i - first] =
        asks_ahead(w.row(i + 1), end) ? dot<true>(w, i, x, end) : dot<false>(w, i, x, end);
}

template <QuantFormat kFormat>
void decode_row(const std::byte* row, float* out, std::size_t n) {
  const F32 d;
  std::size_t i = 0;
  for (; i + hn::Lanes(d) <= n; i += hn::Lanes(d))
    hn::StoreU(load_weights<kFormat>(d, row, i), d, out + i);
  if (i < n) ref::dequantize(kFormat, row + i * info(kFormat).block_bytes, {out + i, n - i});
}

void decode(const Matrix& w, std::int64_t row, float* out) {
  const std::size_t n = std::size_t(w.columns);
  switch (w.format) {
    case QuantFormat::kF32: return decode_row<QuantFormat::kF32>(w.row(row), out, n);
    case QuantFormat::kF16: return decode_row<QuantFormat::kF16>(w.row(row), out, n);
    case QuantFormat::kBF16: return decode_row<QuantFormat::kBF16>(w.row(row), out, n);
    default: return ref::dequantize(w.format, w.row(row), {out, n});
  }
}

// ---- Batches: tiles of one vector of weight rows, or two, by 8 rows of activations.

constexpr std::int64_t kChunk = 256;  // columns of a tile's weights that stay in the L1 cache
constexpr std::int64_t kVectors = 2;

HWY_INLINE std::int64_t tile_lanes() { return kVectors * std::int64_t(hn::Lanes(F32())); }

// Columns [begin, begin + count) of up to tile_lanes() decoded rows, transposed.
void pack(const FloatScratch& rows_, std::int64_t columns, std::int64_t rows, std::int64_t begin,
          std::int64_t count, float* to) {
  const std::int64_t lanes = tile_lanes();
  for (std::int64_t lane = 0; lane < rows; ++lane) {
    const float* from = rows_.row.data() + lane * columns + begin;
    for (std::int64_t k = 0; k < count; ++k) to[k * lanes + lane] = from[k];
  }
}

void tile(const float* w, const float* x, std::int64_t count, float* sums) {
  const F32 d;
  const std::size_t lanes = hn::Lanes(d), both = kVectors * lanes;
  hn::Vec<F32> low[8], high[8];
  for (std::size_t t = 0; t < 8; ++t) {
    low[t] = hn::Load(d, sums + t * both);
    high[t] = hn::Load(d, sums + t * both + lanes);
  }
  for (std::int64_t k = 0; k < count; ++k, w += both, x += 8) {
    const auto w0 = hn::Load(d, w), w1 = hn::Load(d, w + lanes);
    for (std::size_t t = 0; t < 8; ++t) {
      const auto each = hn::Set(d, x[t]);
      low[t] = hn::MulAdd(w0, each, low[t]);
      high[t] = hn::MulAdd(w1, each, high[t]);
    }
  }
  for (std::size_t t = 0; t < 8; ++t) {
    hn::Store(low[t], d, sums + t * both);
    hn::Store(high[t], d, sums + t * both + lanes);
  }
}

void batch(const Matrix& w, std::int64_t first, std::int64_t last, const FloatBatch& x, float* y,
           std::int64_t stride, FloatScratch& s) {
  const std::int64_t lanes = tile_lanes(), groups = x.groups();
  s.row.resize(std::size_t(lanes * w.columns));
  s.weights.assign(std::size_t(kChunk * lanes), 0.0f);
  s.sums.resize(std::size_t(groups * 8 * lanes));
  for (std::int64_t row = first; row < last; row += lanes) {
    const std::int64_t count = std::min(lanes, last - row);
    for (std::int64_t i = 0; i < count; ++i) decode(w, row + i, s.row.data() + i * w.columns);
    std::fill(s.sums.begin(), s.sums.end(), 0.0f);
    for (std::int64_t begin = 0; begin < w.columns; begin += kChunk) {
      const std::int64_t columns = std::min(kChunk, w.columns - begin);
      pack(s, w.columns, count, begin, columns, s.weights.data());
      for (std::int64_t g = 0; g < groups; ++g)
        tile(s.weights.data(), x.x.data() + (g * w.columns + begin) * 8, columns,
             s.sums.data() + g * 8 * lanes);
    }
    for (std::int64_t t = 0; t < x.rows; ++t)
      std::memcpy(y + t * stride + row, s.sums.data() + t * lanes,
                  std::size_t(count) * sizeof(float));
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace rigcast::engine::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rigcast::engine::cpu {

HWY_EXPORT(rows);
HWY_EXPORT(batch);

void multiply_row_f32(const Matrix& w, std::int64_t first, std::int64_t last, const float* x,
                      float* y) {
  HWY_DYNAMIC_DISPATCH(rows)(w, first, last, x, y);
}

void multiply_batch_f32(const Matrix& w, std::int64_t first, std::int64_t last, const FloatBatch& x,
                        float* y, std::int64_t stride, FloatScratch& scratch) {
  HWY_DYNAMIC_DISPATCH(batch)(w, first, last, x, y, stride, scratch);
}

void FloatBatch::resize(std::int64_t columns_, std::int64_t rows_) {
  columns = columns_;
  rows = rows_;
  x.resize(std::size_t(groups() * 8 * columns));
}

void FloatBatch::set_row(std::int64_t index, std::span<const float> row) {
  float* to = x.data() + index / 8 * columns * 8 + index % 8;
  for (const float v : row) *to = v, to += 8;
}

}  // namespace rigcast::engine::cpu
#endif
