#include "engine/kernels/ref/dequantize_grids.hpp"

#include <bit>
#include <cmath>
#include <cstring>

#include "engine/kernels/ref/block_tables.hpp"
#include "engine/kernels/ref/grids.hpp"
#include "engine/kernels/ref/half.hpp"

// Exactness: d has 11 significant bits, a scale at most 5 and a value at most 6, so that no product
// here is rounded, in whatever order.

namespace rigcast::engine::ref {
namespace {

using Block = const std::uint8_t*;

int u16_at(Block b) { return b[0] | b[1] << 8; }
std::uint32_t u32_at(Block b) {
  return std::uint32_t(u16_at(b)) | std::uint32_t(u16_at(b + 2)) << 16;
}
float half_at(Block b) { return half_to_float(std::uint16_t(u16_at(b))); }
int nibble_at(Block nibbles, int i) { return nibbles[i / 2] >> (4 * (i % 2)) & 15; }

// Seven signs, and the eighth that makes the number of minuses even.
int with_eighth(int seven) { return seven | (std::popcount(unsigned(seven)) & 1) << 7; }

// `count` values of a point. Bit i of `signs`: value i is negative.
void put_point(std::uint64_t point, int count, int signs, float scale, float* w) {
  for (int i = 0; i < count; ++i) {
    const int value = int(point >> (8 * i) & 255);
    w[i] = scale * float(signs >> i & 1 ? -value : value);
  }
}

// A point of IQ1: its values are moved by an eighth, up or down.
void put_moved_point(int index, bool down, float scale, float* w) {
  const float moved = down ? -0.125f : 0.125f;
  for (int i = 0; i < 8; ++i) {
    const int eighths = int(kIq1Grid.at[index] >> (8 * i) & 255);
    w[i] = scale * (float(eighths / 8 - 1) + moved);
  }
}

// Digit n of five base-3 digits, of which a byte holds the fraction in 256ths, rounded up.
int trit(int byte, int n) {
  constexpr int kPowers[] = {1, 3, 9, 27, 81};
  return (byte * kPowers[n] % 256) * 3 / 256;
}

}  // namespace

float unsigned_e4m3(int bits) {
  if (bits == 0x7F) return 0;
  const int exponent = bits >> 3 & 15, mantissa = bits & 7;
  return exponent == 0 ? std::ldexp(float(mantissa), -9)
                       : std::ldexp(float(mantissa + 8), exponent - 10);
}

void iq1_s(Block b, float* w) {
  const float d = half_at(b);
  for (int i = 0; i < 32; ++i) {  // points
    const int fields = u16_at(b + 34 + 2 * (i / 4));
    const int index = b[2 + i] | (fields >> (3 * (i % 4)) & 7) << 8;
    const float scale = d * float(2 * (fields >> 12 & 7) + 1);
    put_moved_point(index, fields >> 15 & 1, scale, w + 8 * i);
  }
}

void iq1_m(Block b, float* w) {
  // The highest four bits of each of four words make up d; 16 scales of three bits are below.
  int bits = 0;
  for (int k = 0; k < 4; ++k) bits |= u16_at(b + 48 + 2 * k) >> 12 << (4 * k);
  const float d = half_to_float(std::uint16_t(bits));
  for (int i = 0; i < 32; ++i) {
    const int fields = nibble_at(b + 32, i);
    const int three = u16_at(b + 48 + 2 * (i / 8)) >> (3 * (i / 2 % 4)) & 7;
    put_moved_point(b[i] | (fields & 7) << 8, fields >> 3, d * float(2 * three + 1), w + 8 * i);
  }
}

void iq2_xxs(Block b, float* w) {
  const float d = half_at(b);
  for (int i = 0; i < 32; ++i) {
    const Block unit = b + 2 + 8 * (i / 4);
    const std::uint32_t fields = u32_at(unit + 4);
    const float scale = d * (float(fields >> 28) + 0.5f) * 0.25f;
    const int signs = with_eighth(int(fields >> (7 * (i % 4)) & 127));
    put_point(kIq2XxsGrid.at[unit[i % 4]], 8, signs, scale, w + 8 * i);
  }
}

void iq2_xs(Block b, float* w) {
  const float d = half_at(b);
  for (int i = 0; i < 32; ++i) {
    const int code = u16_at(b + 2 + 2 * i);
    const float scale = d * (float(nibble_at(b + 66, i / 2)) + 0.5f) * 0.25f;
    put_point(kIq2XsGrid.at[code & 511], 8, with_eighth(code >> 9), scale, w + 8 * i);
  }
}

void iq2_s(Block b, float* w) {
  const float d = half_at(b);
  for (int i = 0; i < 32; ++i) {
    const int index = b[2 + i] | (b[66 + i / 4] >> (2 * (i % 4)) & 3) << 8;
    const float scale = d * (float(nibble_at(b + 74, i / 2)) + 0.5f) * 0.25f;
    put_point(kIq2SGrid.at[index], 8, b[34 + i], scale, w + 8 * i);
  }
}

void iq3_xxs(Block b, float* w) {
  const float d = half_at(b);
  for (int i = 0; i < 64; ++i) {
    const std::uint32_t fields = u32_at(b + 66 + 4 * (i / 8));
    const float scale = d * (float(fields >> 28) + 0.5f) * 0.5f;
    const int signs = with_eighth(int(fields >> (7 * (i / 2 % 4)) & 127));
    put_point(kIq3XxsGrid.at[b[2 + i]], 4, signs >> (4 * (i % 2)), scale, w + 4 * i);
  }
}

void iq3_s(Block b, float* w) {
  const float d = half_at(b);
  for (int i = 0; i < 64; ++i) {
    const int index = b[2 + i] | (b[66 + i / 8] >> (i % 8) & 1) << 8;
    const float scale = d * float(2 * nibble_at(b + 106, i / 8) + 1);
    put_point(kIq3SGrid.at[index], 4, nibble_at(b + 74, i), scale, w + 4 * i);
  }
}

// 32 bytes have five digits each, 16 the next five, and the last four have four: the first digits
// of all, then the second ones.
void tq1_0(Block b, float* w) {
  const float d = half_at(b + 52);
  const auto put = [&](int first, int count, int digits) {
    for (int n = 0; n < digits; ++n)
      for (int m = 0; m < count; ++m) *w++ = float(trit(b[first + m], n) - 1) * d;
  };
  put(0, 32, 5);
  put(32, 16, 5);
  put(48, 4, 4);
}

// The order of Q2_K's codes.
void tq2_0(Block b, float* w) {
  const float d = half_at(b + 64);
  for (int i = 0; i < 256; ++i) {
    const int code = b[32 * (i / 128) + i % 32] >> (2 * (i / 32 % 4)) & 3;
    w[i] = float(code - 1) * d;
  }
}

void nvfp4(Block b, float* w) {
  for (int s = 0; s < 4; ++s) {
    const float scale = 0.5f * unsigned_e4m3(b[s]);  // codes are doubled
    for (int i = 0; i < 16; ++i) {
      const int code = b[4 + 8 * s + i % 8] >> (4 * (i / 8)) & 15;
      w[16 * s + i] = scale * float(kTwiceE2M1[std::size_t(code)]);
    }
  }
}

}  // namespace rigcast::engine::ref
