#include "engine/kernels/ref/quantize_grids.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <span>

#include "engine/kernels/ref/block_tables.hpp"
#include "engine/kernels/ref/dequantize_grids.hpp"
#include "engine/kernels/ref/grids.hpp"
#include "engine/kernels/ref/half.hpp"
#include "engine/kernels/ref/quantize_steps.hpp"

namespace rigcast::engine::ref {
namespace {

constexpr int kWeights = 256;

void add_bits(std::uint8_t& byte, int value, int shift) {
  byte = std::uint8_t(byte | value << shift);
}
void add_word(std::uint8_t* at, std::uint32_t value) {
  for (int k = 0; k < 4; ++k) add_bits(at[k], int(value >> (8 * k) & 255), 0);
}

double magnitude(const float* x, int n) { return std::abs(double(largest(x, n))); }

// Scales that are odd multiples of one unit: 2 * half + 1 of them.
struct OddScales {
  double unit = 0;
  std::array<int, 16> half{};

  double of(int group) const { return unit * (2 * half[std::size_t(group)] + 1); }
};

// A group's largest magnitude becomes `top`. The FP16 number of the block is `of_unit` units.
OddScales fit_odd_scales(const float* x, int group, double top, int most, double of_unit,
                         std::uint8_t* d) {
  const double widest = magnitude(x, kWeights) / top / (2 * most + 1);
  OddScales scales;
  scales.unit = double(put_half(d, widest * of_unit)) / of_unit;
  for (int g = 0; g < kWeights / group; ++g) {
    const double exact = magnitude(x + g * group, group) / top;
    scales.half[std::size_t(g)] = nearest_level(exact - scales.unit, 2 * scales.unit, 0, most);
  }
  return scales;
}

struct Nearest {
  int index = 0;
  double error = 0;  // the sum of squares, in scales
};

// The point nearest to kWidth values, given in scales. Codes of kBits bits stand for `levels`.
template <int kWidth, int kBits, std::size_t kPoints>
Nearest nearest_point(const std::uint16_t (&points)[kPoints], std::span<const double> levels,
                      const std::array<double, 8>& wanted) {
  std::array<std::array<double, 8>, 8> cost{};
  for (std::size_t i = 0; i < std::size_t(kWidth); ++i)
    for (std::size_t code = 0; code < levels.size(); ++code)
      cost[i][code] = (wanted[i] - levels[code]) * (wanted[i] - levels[code]);
  Nearest best{0, HUGE_VAL};
  for (std::size_t p = 0; p < kPoints; ++p) {
    double error = 0;
    for (int i = 0; i < kWidth && error < best.error; ++i)
      error += cost[std::size_t(i)][std::size_t(points[p] >> (kBits * i) & ((1 << kBits) - 1))];
    if (error < best.error) best = {int(p), error};
  }
  return best;
}

// Values in scales, bounded so that their squares are numbers.
std::array<double, 8> in_scales(const float* x, double scale) {
  std::array<double, 8> wanted{};
  for (std::size_t i = 0; i < 8; ++i)
    wanted[i] = scale > 0 ? std::clamp(double(x[i]) / scale, -1e3, 1e3) : 0;
  return wanted;
}

// Takes the signs off eight values. With an even number of them, the smallest value's is the wrong
// one: it is nearest to a point as if it were below 0.
int take_signs(std::array<double, 8>& wanted, bool even) {
  int signs = 0;
  for (std::size_t i = 0; i < 8; ++i)
    if (wanted[i] < 0) signs |= 1 << i, wanted[i] = -wanted[i];
  if (even && std::popcount(unsigned(signs)) % 2 == 1) {
    const auto smallest = std::ranges::min_element(wanted);
    signs ^= 1 << (smallest - wanted.begin());
    *smallest = -*smallest;
  }
  return signs;
}

constexpr double kTwo[] = {8, 25, 43};
constexpr double kThreeXxs[] = {4, 12, 20, 28, 36, 44, 52, 62};
constexpr double kThreeS[] = {1, 3, 5, 7, 9, 11, 13, 15};

std::array<double, 8> last_four(const std::array<double, 8>& eight) {
  return {eight[4], eight[5], eight[6], eight[7]};
}

// IQ1: the levels -1, 0 and 1, all of them an eighth up or down.
Nearest nearest_moved(const float* x, double scale, bool down) {
  const double moved = down ? -0.125 : 0.125;
  const double levels[] = {-1 + moved, moved, 1 + moved};
  return nearest_point<8, 2>(kIq1Points, levels, in_scales(x, scale));
}

void put_ternary_scale(const float* x, std::uint8_t* d, std::array<int, kWeights>& codes) {
  const float scale = put_half(d, magnitude(x, kWeights));
  for (std::size_t i = 0; i < codes.size(); ++i) codes[i] = nearest_level(x[i], scale, -1, 1) + 1;
}

// `digits` base-3 digits as a fraction of a byte, rounded up: what is read of it by multiplying.
int fraction(const int* code, int stride, int digits) {
  int number = 0;
  for (int n = 0; n < 5; ++n) number = 3 * number + (n < digits ? code[n * stride] : 0);
  return (number * 256 + 242) / 243;
}

}  // namespace

void quantize_iq1_s(const float* x, std::uint8_t* b) {
  const OddScales scales = fit_odd_scales(x, 32, 1.125, 7, 1, b);
  for (int s = 0; s < 8; ++s) {
    std::array<std::array<Nearest, 4>, 2> points;
    std::array<double, 2> errors{};
    for (std::size_t down = 0; down < 2; ++down)
      for (std::size_t i = 0; i < 4; ++i) {
        const float* const at = x + 32 * s + 8 * int(i);
        points[down][i] = nearest_moved(at, scales.of(s), down == 1);
        errors[down] += points[down][i].error;
      }
    const int down = errors[1] < errors[0];
    int fields = scales.half[std::size_t(s)] << 12 | down << 15;
    for (int i = 0; i < 4; ++i) {
      const int index = points[std::size_t(down)][std::size_t(i)].index;
      b[2 + 4 * s + i] = std::uint8_t(index);
      fields |= index >> 8 << (3 * i);
    }
    b[34 + 2 * s] = std::uint8_t(fields);
    b[35 + 2 * s] = std::uint8_t(fields >> 8);
  }
}

void quantize_iq1_m(const float* x, std::uint8_t* b) {
  std::uint8_t d[2];
  const OddScales scales = fit_odd_scales(x, 16, 1.125, 7, 1, d);
  for (int i = 0; i < 32; ++i) {
    const Nearest up = nearest_moved(x + 8 * i, scales.of(i / 2), false);
    const Nearest down = nearest_moved(x + 8 * i, scales.of(i / 2), true);
    const bool lower = down.error < up.error;
    const int index = lower ? down.index : up.index;
    b[i] = std::uint8_t(index);
    add_bits(b[32 + i / 2], index >> 8 | int(lower) << 3, 4 * (i % 2));
  }
  for (int k = 0; k < 4; ++k) {  // a nibble of d above four scales of three bits
    int word = (d[k / 2] >> (4 * (k % 2)) & 15) << 12;
    for (int i = 0; i < 4; ++i) word |= scales.half[std::size_t(4 * k + i)] << (3 * i);
    b[48 + 2 * k] = std::uint8_t(word);
    b[49 + 2 * k] = std::uint8_t(word >> 8);
  }
}

void quantize_iq2_xxs(const float* x, std::uint8_t* b) {
  const OddScales scales = fit_odd_scales(x, 32, 43, 15, 8, b);
  for (int s = 0; s < 8; ++s) {
    std::uint32_t fields = std::uint32_t(scales.half[std::size_t(s)]) << 28;
    for (int i = 0; i < 4; ++i) {
      auto wanted = in_scales(x + 32 * s + 8 * i, scales.of(s));
      fields |= std::uint32_t(take_signs(wanted, true) & 127) << (7 * i);
      b[2 + 8 * s + i] = std::uint8_t(nearest_point<8, 2>(kIq2XxsPoints, kTwo, wanted).index);
    }
    add_word(b + 6 + 8 * s, fields);
  }
}

void quantize_iq2_xs(const float* x, std::uint8_t* b) {
  const OddScales scales = fit_odd_scales(x, 16, 43, 15, 8, b);
  for (int i = 0; i < 32; ++i) {
    auto wanted = in_scales(x + 8 * i, scales.of(i / 2));
    const int signs = take_signs(wanted, true) & 127;
    const int code = nearest_point<8, 2>(kIq2XsPoints, kTwo, wanted).index | signs << 9;
    b[2 + 2 * i] = std::uint8_t(code);
    b[3 + 2 * i] = std::uint8_t(code >> 8);
    if (i % 2 == 0) add_bits(b[66 + i / 4], scales.half[std::size_t(i / 2)], 4 * (i / 2 % 2));
  }
}

void quantize_iq2_s(const float* x, std::uint8_t* b) {
  const OddScales scales = fit_odd_scales(x, 16, 43, 15, 8, b);
  for (int i = 0; i < 32; ++i) {
    auto wanted = in_scales(x + 8 * i, scales.of(i / 2));
    b[34 + i] = std::uint8_t(take_signs(wanted, false));
    const int index = nearest_point<8, 2>(kIq2SPoints, kTwo, wanted).index;
    b[2 + i] = std::uint8_t(index);
    add_bits(b[66 + i / 4], index >> 8, 2 * (i % 4));
    if (i % 2 == 0) add_bits(b[74 + i / 4], scales.half[std::size_t(i / 2)], 4 * (i / 2 % 2));
  }
}

void quantize_iq3_xxs(const float* x, std::uint8_t* b) {
  const OddScales scales = fit_odd_scales(x, 32, 62, 15, 4, b);
  for (int s = 0; s < 8; ++s) {
    std::uint32_t fields = std::uint32_t(scales.half[std::size_t(s)]) << 28;
    for (int i = 0; i < 4; ++i) {
      auto wanted = in_scales(x + 32 * s + 8 * i, scales.of(s));
      fields |= std::uint32_t(take_signs(wanted, true) & 127) << (7 * i);
      std::uint8_t* const codes = b + 2 + 8 * s + 2 * i;
      codes[0] = std::uint8_t(nearest_point<4, 3>(kIq3XxsPoints, kThreeXxs, wanted).index);
      codes[1] =
          std::uint8_t(nearest_point<4, 3>(kIq3XxsPoints, kThreeXxs, last_four(wanted)).index);
    }
    add_word(b + 66 + 4 * s, fields);
  }
}

void quantize_iq3_s(const float* x, std::uint8_t* b) {
  const OddScales scales = fit_odd_scales(x, 32, 15, 15, 1, b);
  for (int i = 0; i < 32; ++i) {
    auto wanted = in_scales(x + 8 * i, scales.of(i / 4));
    b[74 + i] = std::uint8_t(take_signs(wanted, false));
    const int first = nearest_point<4, 3>(kIq3SPoints, kThreeS, wanted).index;
    const int second = nearest_point<4, 3>(kIq3SPoints, kThreeS, last_four(wanted)).index;
    b[2 + 2 * i] = std::uint8_t(first);
    b[3 + 2 * i] = std::uint8_t(second);
    add_bits(b[66 + i / 4], first >> 8 | second >> 8 << 1, 2 * (i % 4));
    if (i % 4 == 0) add_bits(b[106 + i / 8], scales.half[std::size_t(i / 4)], 4 * (i / 4 % 2));
  }
}

void quantize_tq1_0(const float* x, std::uint8_t* b) {
  std::array<int, kWeights> codes;
  put_ternary_scale(x, b + 52, codes);
  for (int m = 0; m < 32; ++m) b[m] = std::uint8_t(fraction(&codes[std::size_t(m)], 32, 5));
  for (int m = 0; m < 16; ++m)
    b[32 + m] = std::uint8_t(fraction(&codes[std::size_t(160 + m)], 16, 5));
  for (int m = 0; m < 4; ++m)
    b[48 + m] = std::uint8_t(fraction(&codes[std::size_t(240 + m)], 4, 4));
}

void quantize_tq2_0(const float* x, std::uint8_t* b) {
  std::array<int, kWeights> codes;
  put_ternary_scale(x, b + 64, codes);
  for (int i = 0; i < kWeights; ++i)
    add_bits(b[32 * (i / 128) + i % 32], codes[std::size_t(i)], 2 * (i / 32 % 4));
}

void quantize_nvfp4(const float* x, std::uint8_t* b) {
  for (int s = 0; s < 4; ++s, x += 16) {
    // The scale nearest to the one that makes the largest magnitude a 6.
    const double wanted = magnitude(x, 16) / 6;
    int code = 0;
    for (int c = 1; c < 127; ++c)
      if (std::abs(unsigned_e4m3(c) - wanted) < std::abs(unsigned_e4m3(code) - wanted)) code = c;
    b[s] = std::uint8_t(code);
    const double half_scale = 0.5 * double(unsigned_e4m3(code));
    for (int i = 0; i < 16; ++i)
      add_bits(b[4 + 8 * s + i % 8], nearest_entry(kTwiceE2M1, x[i], half_scale), 4 * (i / 8));
  }
}

}  // namespace rigcast::engine::ref
