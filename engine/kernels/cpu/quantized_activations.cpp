#include "engine/kernels/cpu/quantized_activations.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "core/base/error.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/kernels/cpu/quantized_activations.cpp"
#include <hwy/foreach_target.h>
// after foreach_target
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace rigcast::engine::cpu {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using Floats = hn::CappedTag<float, 16>;  // no more than half a block

// What is not a number counts as 0.
HWY_INLINE auto numbers_at(Floats d, const float* x) {
  const auto v = hn::LoadU(d, x);
  return hn::IfThenZeroElse(hn::IsNaN(v), v);
}

HWY_INLINE float largest_of(const float* x) {
  const Floats d;
  auto most = hn::Zero(d);
  for (std::size_t i = 0; i < kQuantizedBlock; i += hn::Lanes(d))
    most = hn::Max(most, hn::Abs(numbers_at(d, x + i)));
  return hn::GetLane(hn::MaxOfLanes(d, most));
}

// q = 16 values times `inverse`, to the nearest integer, ties to even. Their sum.
HWY_INLINE std::int32_t round_half(const float* x, float inverse, std::int8_t* q) {
  const Floats d;
  const hn::RebindToSigned<Floats> whole;
  const hn::Rebind<std::int8_t, Floats> narrow;
  auto sums = hn::Zero(whole);
  for (std::size_t i = 0; i < kQuantizedBlock / 2; i += hn::Lanes(d)) {
    const auto nearest = hn::NearestInt(hn::Mul(numbers_at(d, x + i), hn::Set(d, inverse)));
    hn::StoreU(hn::DemoteTo(narrow, nearest), narrow, q + i);
    sums = hn::Add(sums, nearest);
  }
  return hn::GetLane(hn::SumOfLanes(whole, sums));
}

void blocks(const float* x, std::size_t count, std::int8_t* q, float* scale, float* sum16) {
  for (std::size_t b = 0; b < count; ++b, x += kQuantizedBlock, q += kQuantizedBlock) {
    const float most = largest_of(x);
    const float inverse = 127.0f / most;  // infinite for zeros and what is next to them
    const bool zeros = !std::isfinite(most) || !std::isfinite(inverse);
    scale[b] = zeros ? 0 : most / 127.0f;
    for (std::size_t half = 0; half < 2; ++half) {
      constexpr std::size_t kHalf = kQuantizedBlock / 2;
      std::int8_t* const to = q + half * kHalf;
      std::int32_t sum = 0;
      if (zeros)
        std::memset(to, 0, kHalf);
      else
        sum = round_half(x + half * kHalf, inverse, to);
      sum16[2 * b + half] = scale[b] * float(sum);
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace rigcast::engine::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rigcast::engine::cpu {
namespace {

HWY_EXPORT(blocks);

// `count` blocks of 32: their q, scales [count], and sums of 16 times the scale [2 * count].
void quantize_blocks(const float* x, std::size_t count, std::int8_t* q, float* scale,
                     float* sum16) {
  HWY_DYNAMIC_DISPATCH(blocks)(x, count, q, scale, sum16);
}

// Eight 32s from `block` on, as wide vectors take them.
void order_eight(QuantizedRow& row, std::size_t block) {
  std::int8_t* to = row.k_q.data() + block * kQuantizedBlock;
  for (std::size_t odd = 0; odd < 2; ++odd)
    for (std::size_t half = 0; half < 2; ++half)
      for (std::size_t i = odd; i < 8; i += 2, to += 16)
        std::memcpy(to, row.q.data() + (block + i) * kQuantizedBlock + 16 * half, 16);
  float* scales = row.k_scale.data() + 2 * block;
  for (std::size_t four = 0; four < 8; four += 4, scales += 8) {
    std::copy_n(row.scale.data() + block + four, 4, scales);
    std::copy_n(row.sum32.data() + block + four, 4, scales + 4);
  }
  for (std::size_t i = 0; i < 16; ++i) row.scale16[2 * block + i] = row.scale[block + i / 2];
}

}  // namespace

void QuantizedRow::resize(std::int64_t columns) {
  RIGCAST_ASSERT(columns % kQuantizedBlock == 0);
  const std::size_t blocks = std::size_t(columns / kQuantizedBlock);
  q.resize(std::size_t(columns));
  scale.resize(blocks);
  sum32.resize(blocks);
  sum16.resize(2 * blocks);
  k_q.resize(blocks % 8 == 0 ? q.size() : 0);
  k_scale.resize(blocks % 8 == 0 ? 2 * blocks : 0);
  scale16.resize(k_scale.size());
}

void quantize_part(std::span<const float> part, std::int64_t first, QuantizedRow& out) {
  RIGCAST_ASSERT(first % kQuantizedBlock == 0);
  const std::size_t begin = std::size_t(first / kQuantizedBlock),
                    end = begin + part.size() / kQuantizedBlock;
  quantize_blocks(part.data(), end - begin, out.q.data() + first, out.scale.data() + begin,
                  out.sum16.data() + 2 * begin);
  for (std::size_t b = begin; b < end; ++b) out.sum32[b] = out.sum16[2 * b] + out.sum16[2 * b + 1];
  if (out.k_q.empty()) return;
  for (std::size_t b = begin; b < end; b += 8) order_eight(out, b);
}

void quantize_row(std::span<const float> row, QuantizedRow& out) { quantize_part(row, 0, out); }

void QuantizedBatch::resize(std::int64_t columns_, std::int64_t rows_) {
  RIGCAST_ASSERT(columns_ % kQuantizedBlock == 0);
  columns = columns_;
  rows = rows_;
  const std::size_t padded = std::size_t((rows + kGroupRows - 1) / kGroupRows * kGroupRows);
  const std::size_t blocks = padded * std::size_t(columns / kQuantizedBlock);
  resize_at_least(q, padded * std::size_t(columns));
  resize_at_least(scale, blocks);
  resize_at_least(sum32, blocks);
  resize_at_least(sum16, 2 * blocks);
}

QuantizedRows::QuantizedRows(const QuantizedBatch& batch, std::int64_t first, std::int64_t rows_)
    : columns(batch.columns), rows(rows_) {
  RIGCAST_ASSERT(first % kGroupRows == 0 && first + rows <= batch.rows);
  const std::int64_t at = first * columns;
  q = batch.q.data() + at;
  scale = batch.scale.data() + at / kQuantizedBlock;
  sum32 = batch.sum32.data() + at / kQuantizedBlock;
  sum16 = batch.sum16.data() + at / kQuantizedBlock * 2;
}

namespace {

// Blocks of 32 of row `index`, from `done` on.
struct Blocks {
  const std::int8_t* q;
  const float *scale, *sum16;
  std::int64_t count;
};

void interleave(const Blocks& from, std::int64_t done, QuantizedBatch& out, std::int64_t index) {
  const std::int64_t group = index / kGroupRows, lane = index % kGroupRows;
  const std::int64_t first = group * (out.columns / kQuantizedBlock) + done;
  const auto at = [&](std::int64_t i) { return std::size_t(i * kGroupRows + lane); };
  std::int8_t* to = out.q.data() + first * kQuantizedBlock * kGroupRows + lane * 4;
  for (std::int64_t i = 0; i < from.count * kQuantizedBlock; i += 4, to += 4 * kGroupRows)
    std::memcpy(to, from.q + i, 4);
  for (std::int64_t b = 0; b < from.count; ++b) {
    const float *const low = from.sum16 + 2 * b, *const high = low + 1;
    out.scale[at(first + b)] = from.scale[b];
    out.sum32[at(first + b)] = *low + *high;
    out.sum16[at(2 * (first + b))] = *low;
    out.sum16[at(2 * (first + b) + 1)] = *high;
  }
}

}  // namespace

void quantize_row(std::span<const float> row, QuantizedBatch& out, std::int64_t index) {
  constexpr std::int64_t kAtOnce = 8;  // blocks
  const std::int64_t blocks = out.columns / kQuantizedBlock;
  std::int8_t q[kAtOnce * kQuantizedBlock];
  float scale[kAtOnce], sum16[2 * kAtOnce];
  for (std::int64_t done = 0; done < blocks; done += kAtOnce) {
    const std::int64_t now = std::min(kAtOnce, blocks - done);
    quantize_blocks(row.data() + done * kQuantizedBlock, std::size_t(now), q, scale, sum16);
    interleave({q, scale, sum16, now}, done, out, index);
  }
}

void copy_row(const QuantizedRow& row, QuantizedBatch& out, std::int64_t index) {
  RIGCAST_ASSERT(std::int64_t(row.q.size()) == out.columns);
  interleave({row.q.data(), row.scale.data(), row.sum16.data(), out.columns / kQuantizedBlock}, 0,
             out, index);
}

}  // namespace rigcast::engine::cpu
#endif
