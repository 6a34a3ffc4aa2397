#include "engine/kernels/ref/dequantize.hpp"

#include <array>
#include <bit>
#include <cstdint>
#include <cstring>

#include "core/base/error.hpp"
#include "engine/kernels/ref/block_tables.hpp"
#include "engine/kernels/ref/dequantize_grids.hpp"
#include "engine/kernels/ref/half.hpp"

// Exactness: d has 11 significant bits, scales and mins at most 6, and a code at most 5 if a min
// follows. Those products are exact, so a fused multiply-add gives the same bits.

namespace rigcast::engine::ref {
namespace {

using Block = const std::uint8_t*;

std::uint16_t u16_at(Block b) { return std::uint16_t(b[0] | b[1] << 8); }
float half_at(Block b) { return half_to_float(u16_at(b)); }

// The code of weight i of 32: weights 0..15 are in the low nibbles of 16 bytes, 16..31 in the high
// ones.
int nibble(Block codes, int i) { return i < 16 ? codes[i] & 15 : codes[i - 16] >> 4; }
int bit(Block bits, int i) { return (bits[i / 8] >> (i % 8)) & 1; }

void f16(Block b, float* w) { w[0] = half_at(b); }
void bf16(Block b, float* w) { w[0] = bfloat_to_float(u16_at(b)); }

void q4_0(Block b, float* w) {
  const float d = half_at(b);
  for (int i = 0; i < 32; ++i) w[i] = d * float(nibble(b + 2, i) - 8);
}

void q4_1(Block b, float* w) {
  const float d = half_at(b);
  const float m = half_at(b + 2);
  for (int i = 0; i < 32; ++i) w[i] = d * float(nibble(b + 4, i)) + m;
}

void q5_0(Block b, float* w) {
  const float d = half_at(b);
  for (int i = 0; i < 32; ++i) {
    const int q = nibble(b + 6, i) | bit(b + 2, i) << 4;
    w[i] = d * float(q - 16);
  }
}

void q5_1(Block b, float* w) {
  const float d = half_at(b);
  const float m = half_at(b + 2);
  for (int i = 0; i < 32; ++i) {
    const int q = nibble(b + 8, i) | bit(b + 4, i) << 4;
    w[i] = d * float(q) + m;
  }
}

void q8_0(Block b, float* w) {
  const float d = half_at(b);
  for (int i = 0; i < 32; ++i) w[i] = d * float(std::int8_t(b[2 + i]));
}

// Q2_K and Q3_K: each of 32 bytes holds two bits of four weights, which are 32 apart; the second
// 128 weights follow.
int two_bits(Block codes, int i) {
  return (codes[32 * (i / 128) + i % 32] >> (2 * (i / 32 % 4))) & 3;
}

void q2_k(Block b, float* w) {
  const float d = half_at(b + 80);
  const float dmin = half_at(b + 82);
  for (int i = 0; i < 256; ++i) {
    const int fields = b[i / 16];
    const float scale = d * float(fields & 15);
    const float min = dmin * float(fields >> 4);
    w[i] = scale * float(two_bits(b + 16, i)) - min;
  }
}

// 16 scales of 6 bits in 12 bytes: nibbles in the first 8, the two high bits in the last 4.
int q3_k_scale(Block scales, int s) {
  const int low = s < 8 ? scales[s] & 15 : scales[s - 8] >> 4;
  const int high = (scales[8 + s % 4] >> (2 * (s / 4))) & 3;
  return (low | high << 4) - 32;
}

void q3_k(Block b, float* w) {
  const float d = half_at(b + 108);
  for (int i = 0; i < 256; ++i) {
    // The code is reduced by 4 unless the weight's high bit is set. The byte of that bit is the
    // weight's index modulo 32.
    const int high = (b[i % 32] >> (i / 32)) & 1;
    const int q = two_bits(b + 32, i) + 4 * high - 4;
    w[i] = d * float(q3_k_scale(b + 96, i / 16)) * float(q);
  }
}

struct ScaleAndMin {
  int scale = 0;
  int min = 0;
};

// Q4_K and Q5_K: 8 scales and 8 mins of 6 bits in 12 bytes. The last four of each are nibbles of
// the last four bytes, their high bits on top of the first eight.
ScaleAndMin six_bits(Block p, int s) {
  if (s < 4) return {p[s] & 63, p[s + 4] & 63};
  return {(p[s + 4] & 15) | (p[s - 4] >> 6) << 4, p[s + 4] >> 4 | (p[s] >> 6) << 4};
}

// Weights are in the low nibbles of 32 bytes, then in their high nibbles, then in the next 32
// bytes.
int k_nibble(Block codes, int i) {
  return (codes[32 * (i / 64) + i % 32] >> (4 * (i / 32 % 2))) & 15;
}

void q4_k(Block b, float* w) {
  const float d = half_at(b);
  const float dmin = half_at(b + 2);
  for (int i = 0; i < 256; ++i) {
    const ScaleAndMin f = six_bits(b + 4, i / 32);
    w[i] = d * float(f.scale) * float(k_nibble(b + 16, i)) - dmin * float(f.min);
  }
}

void q5_k(Block b, float* w) {
  const float d = half_at(b);
  const float dmin = half_at(b + 2);
  for (int i = 0; i < 256; ++i) {
    const ScaleAndMin f = six_bits(b + 4, i / 32);
    const int high = (b[16 + i % 32] >> (i / 32)) & 1;
    const int q = k_nibble(b + 48, i) | high << 4;
    w[i] = d * float(f.scale) * float(q) - dmin * float(f.min);
  }
}

// Q6_K has two parts of 128 weights: 64 bytes of nibbles and 32 bytes of two high bits each.
int q6_k_code(Block b, int i) {
  const int half = i / 128;
  const int quarter = i % 128 / 32;
  const int l = i % 32;
  const int low = (b[64 * half + 32 * (quarter % 2) + l] >> (4 * (quarter / 2))) & 15;
  const int high = (b[128 + 32 * half + l] >> (2 * quarter)) & 3;
  return (low | high << 4) - 32;
}

void q6_k(Block b, float* w) {
  const float d = half_at(b + 208);
  for (int i = 0; i < 256; ++i)
    w[i] = d * float(std::int8_t(b[192 + i / 16])) * float(q6_k_code(b, i));
}

void iq4_nl(Block b, float* w) {
  const float d = half_at(b);
  for (int i = 0; i < 32; ++i) w[i] = d * float(kNonLinear4[std::size_t(nibble(b + 2, i))]);
}

void iq4_xs(Block b, float* w) {
  const float d = half_at(b);
  for (int i = 0; i < 256; ++i) {
    const int s = i / 32;
    const int low = (b[4 + s / 2] >> (4 * (s % 2))) & 15;
    const int high = (u16_at(b + 2) >> (2 * s)) & 3;
    const int scale = (low | high << 4) - 32;
    w[i] = d * float(scale) * float(kNonLinear4[std::size_t(nibble(b + 8 + 16 * s, i % 32))]);
  }
}

void mxfp4(Block b, float* w) {
  // The scale is 2^(e - 128): half of MXFP4's, because the codes are doubled. The two smallest are
  // subnormal.
  const std::uint32_t e = b[0];
  const float scale = std::bit_cast<float>(e < 2 ? 0x00200000u << e : (e - 1u) << 23);
  for (int i = 0; i < 32; ++i) w[i] = scale * float(kTwiceE2M1[std::size_t(nibble(b + 1, i))]);
}

using Decode = void (*)(Block, float*);
constexpr std::array<Decode, kComputedFormatCount> kDecoders = {  // in the order of QuantFormat
    nullptr, f16,    bf16,  q4_0,    q4_1,   q5_0,   q5_1,  q8_0,  q2_k,
    q3_k,    q4_k,   q5_k,  q6_k,    iq4_nl, iq4_xs, mxfp4, iq1_s, iq1_m,
    iq2_xxs, iq2_xs, iq2_s, iq3_xxs, iq3_s,  tq1_0,  tq2_0, nvfp4};

}  // namespace

void dequantize(QuantFormat format, const std::byte* blocks, std::span<float> out) {
  const QuantFormatInfo& f = info(format);
  RIGCAST_ASSERT(is_computed(format) && out.size() % f.block_elements == 0);
  if (format == QuantFormat::kF32) {  // as they lie in memory
    static_assert(std::endian::native == std::endian::little);
    std::memcpy(out.data(), blocks, out.size_bytes());
    return;
  }
  const auto* block = reinterpret_cast<Block>(blocks);
  for (std::size_t i = 0; i < out.size(); i += f.block_elements, block += f.block_bytes)
    kDecoders[std::size_t(format)](block, out.data() + i);
}

}  // namespace rigcast::engine::ref
