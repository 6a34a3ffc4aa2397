#include "engine/kernels/cpu/rounded.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "core/error.hpp"

namespace rigcast::engine::cpu {
namespace {

// The scale of 32 values and its inverse; zeros where all are zero (or none is a number).
struct Scale {
  float scale = 0, inverse = 0;
};
Scale scale_of(const float* x) {
  float most = 0;
  for (std::int64_t i = 0; i < kRoundedBlock; ++i) {
    const float magnitude = std::fabs(x[i]);
    most = magnitude > most ? magnitude : most;  // false for NaN
  }
  if (!(most > 0) || !std::isfinite(most)) return {};
  return {most / 127.0f, 127.0f / most};
}

// Nearest, ties to even: adding 1.5 * 2^23 leaves the rounded value in the low bits.
std::int8_t nearest(float v) {
  constexpr float kMagic = 12582912.0f;
  const float shifted = v + kMagic;
  std::int32_t bits;
  std::memcpy(&bits, &shifted, sizeof bits);
  return std::int8_t(bits);
}

struct Rounded {
  float scale = 0;
  float halves[2] = {};  // scale * sum of 16 q
  float sum() const { return halves[0] + halves[1]; }
};

Rounded round_block(const float* x, std::int8_t* q) {
  const Scale s = scale_of(x);
  Rounded r{s.scale};
  for (std::int64_t i = 0; i < kRoundedBlock; ++i) q[i] = nearest(x[i] * s.inverse);
  for (std::int64_t half = 0; half < 2; ++half) {
    std::int32_t sum = 0;
    for (std::int64_t i = 0; i < 16; ++i) sum += q[half * 16 + i];
    r.halves[half] = s.scale * float(sum);
  }
  return r;
}

// Eight 32s from `block` on, as wide vectors take them.
void order_eight(RoundedRow& row, std::size_t block) {
  std::int8_t* to = row.k_q.data() + block * kRoundedBlock;
  for (std::size_t odd = 0; odd < 2; ++odd)
    for (std::size_t half = 0; half < 2; ++half)
      for (std::size_t i = odd; i < 8; i += 2, to += 16)
        std::memcpy(to, row.q.data() + (block + i) * kRoundedBlock + 16 * half, 16);
  float* scales = row.k_scale.data() + 2 * block;
  for (std::size_t four = 0; four < 8; four += 4, scales += 8) {
    std::copy_n(row.scale.data() + block + four, 4, scales);
    std::copy_n(row.sum32.data() + block + four, 4, scales + 4);
  }
  for (std::size_t i = 0; i < 16; ++i) row.scale16[2 * block + i] = row.scale[block + i / 2];
}

}  // namespace

void RoundedRow::resize(std::int64_t columns) {
  RIGCAST_ASSERT(columns % kRoundedBlock == 0);
  const std::size_t blocks = std::size_t(columns / kRoundedBlock);
  q.resize(std::size_t(columns));
  scale.resize(blocks);
  sum32.resize(blocks);
  sum16.resize(2 * blocks);
  k_q.resize(blocks % 8 == 0 ? q.size() : 0);
  k_scale.resize(blocks % 8 == 0 ? 2 * blocks : 0);
  scale16.resize(k_scale.size());
}

void round_row(std::span<const float> row, RoundedRow& out) {
  const std::size_t blocks = row.size() / kRoundedBlock;
  for (std::size_t b = 0; b < blocks; ++b) {
    const Rounded r = round_block(row.data() + b * kRoundedBlock, out.q.data() + b * kRoundedBlock);
    out.scale[b] = r.scale;
    out.sum32[b] = r.sum();
    out.sum16[2 * b] = r.halves[0];
    out.sum16[2 * b + 1] = r.halves[1];
  }
  if (out.k_q.empty()) return;
  for (std::size_t b = 0; b < blocks; b += 8) order_eight(out, b);
}

void RoundedBatch::resize(std::int64_t columns_, std::int64_t rows_) {
  RIGCAST_ASSERT(columns_ % kRoundedBlock == 0);
  columns = columns_;
  rows = rows_;
  const std::size_t padded = std::size_t(groups() * kGroupRows);
  const std::size_t blocks = padded * std::size_t(columns / kRoundedBlock);
  q.resize(padded * std::size_t(columns));
  scale.resize(blocks);
  sum32.resize(blocks);
  sum16.resize(2 * blocks);
}

void round_row(std::span<const float> row, RoundedBatch& out, std::int64_t index) {
  const std::int64_t blocks = out.columns / kRoundedBlock;
  const std::int64_t group = index / kGroupRows, lane = index % kGroupRows;
  std::int8_t q[kRoundedBlock];
  for (std::int64_t b = 0; b < blocks; ++b) {
    const Rounded r = round_block(row.data() + b * kRoundedBlock, q);
    const std::int64_t block = group * blocks + b;
    std::int8_t* to = out.q.data() + block * kRoundedBlock * kGroupRows + lane * 4;
    for (std::int64_t i = 0; i < kRoundedBlock; i += 4, to += 4 * kGroupRows)
      std::memcpy(to, q + i, 4);
    const auto at = [&](std::int64_t i) { return std::size_t(i * kGroupRows + lane); };
    out.scale[at(block)] = r.scale;
    out.sum32[at(block)] = r.sum();
    out.sum16[at(2 * block)] = r.halves[0];
    out.sum16[at(2 * block + 1)] = r.halves[1];
  }
}

}  // namespace rigcast::engine::cpu
