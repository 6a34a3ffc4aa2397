#include "engine/kernels/ref/quantize_k.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "engine/kernels/ref/block_tables.hpp"
#include "engine/kernels/ref/quantize_steps.hpp"

namespace rigcast::engine::ref {
namespace {

constexpr int kWeights = 256;

void add_bits(std::uint8_t& byte, int value, int shift) {
  byte = std::uint8_t(byte | value << shift);
}

// The scales of groups, as integer multiples of one FP16 unit.
struct Steps {
  float unit = 0;
  std::array<int, 16> counts{};

  double of(int group) const { return double(unit) * counts[std::size_t(group)]; }
};

Steps round_steps(const std::array<double, 16>& exact, int most, std::uint8_t* unit_at) {
  double widest = 0;
  for (const double s : exact) widest = std::max(widest, std::abs(s));
  Steps steps;
  steps.unit = put_half(unit_at, widest / most);
  for (std::size_t g = 0; g < exact.size(); ++g)
    steps.counts[g] = nearest_level(exact[g], steps.unit, -most, most);
  return steps;
}

// Fits scales for w = scale * q: the largest magnitude of a group becomes the code `lowest`, which
// is negative.
Steps fit_scales(const float* x, int group, int lowest, int most, std::uint8_t* unit_at) {
  std::array<double, 16> exact{};
  for (int g = 0; g < kWeights / group; ++g)
    exact[std::size_t(g)] = double(largest(x + g * group, group)) / lowest;
  return round_steps(exact, most, unit_at);
}

// Scales and mins for w = scale * q - min. Neither is negative: a group above 0 has a min of 0.
struct ScalesAndMins {
  Steps scales;
  Steps mins;

  int code(float x, int group, int highest) const {
    return nearest_level(double(x) + mins.of(group), scales.of(group), 0, highest);
  }
};

ScalesAndMins fit_mins(const float* x, int group, int highest, int most, std::uint8_t* units_at) {
  std::array<double, 16> scales{};
  std::array<double, 16> mins{};
  for (int g = 0; g < kWeights / group; ++g) {
    const Range r = range_of(x + g * group, group);
    const double low = std::min(r.low, 0.0);
    scales[std::size_t(g)] = (r.high - low) / highest;
    mins[std::size_t(g)] = -low;
  }
  return {round_steps(scales, most, units_at), round_steps(mins, most, units_at + 2)};
}

// Stores the code of weight i among two-bit codes: 32 bytes per 128 weights, four weights per byte.
void put_two_bits(std::uint8_t* codes, int i, int q) {
  add_bits(codes[32 * (i / 128) + i % 32], q, 2 * (i / 32 % 4));
}

void put_nibble_of_64(std::uint8_t* codes, int i, int q) {
  add_bits(codes[32 * (i / 64) + i % 32], q, 4 * (i / 32 % 2));
}

// Stores scale and min number s: 8 scales and 8 mins of 6 bits in 12 bytes.
void put_six_bits(std::uint8_t* p, int s, int scale, int min) {
  if (s < 4) {
    add_bits(p[s], scale, 0);
    add_bits(p[s + 4], min, 0);
    return;
  }
  add_bits(p[s + 4], scale & 15, 0);
  add_bits(p[s + 4], min & 15, 4);
  add_bits(p[s - 4], scale >> 4, 6);
  add_bits(p[s], min >> 4, 6);
}

void put_all_six_bits(std::uint8_t* p, const ScalesAndMins& fit) {
  for (int s = 0; s < 8; ++s)
    put_six_bits(p, s, fit.scales.counts[std::size_t(s)], fit.mins.counts[std::size_t(s)]);
}

}  // namespace

void quantize_q2_k(const float* x, std::uint8_t* block) {
  const ScalesAndMins fit = fit_mins(x, 16, 3, 15, block + 80);
  for (int g = 0; g < 16; ++g) {
    add_bits(block[g], fit.scales.counts[std::size_t(g)], 0);
    add_bits(block[g], fit.mins.counts[std::size_t(g)], 4);
  }
  for (int i = 0; i < kWeights; ++i) put_two_bits(block + 16, i, fit.code(x[i], i / 16, 3));
}

void quantize_q3_k(const float* x, std::uint8_t* block) {
  const Steps scales = fit_scales(x, 16, -4, 31, block + 108);
  for (int s = 0; s < 16; ++s) {
    const int field = scales.counts[std::size_t(s)] + 32;
    add_bits(block[96 + s % 8], field & 15, s < 8 ? 0 : 4);
    add_bits(block[104 + s % 4], field >> 4, 2 * (s / 4));
  }
  for (int i = 0; i < kWeights; ++i) {
    const int q = nearest_level(x[i], scales.of(i / 16), -4, 3) + 4;
    put_two_bits(block + 32, i, q & 3);
    add_bits(block[i % 32], q >> 2, i / 32);
  }
}

void quantize_q4_k(const float* x, std::uint8_t* block) {
  const ScalesAndMins fit = fit_mins(x, 32, 15, 63, block);
  put_all_six_bits(block + 4, fit);
  for (int i = 0; i < kWeights; ++i) put_nibble_of_64(block + 16, i, fit.code(x[i], i / 32, 15));
}

void quantize_q5_k(const float* x, std::uint8_t* block) {
  const ScalesAndMins fit = fit_mins(x, 32, 31, 63, block);
  put_all_six_bits(block + 4, fit);
  for (int i = 0; i < kWeights; ++i) {
    const int q = fit.code(x[i], i / 32, 31);
    put_nibble_of_64(block + 48, i, q & 15);
    add_bits(block[16 + i % 32], q >> 4, i / 32);
  }
}

void quantize_q6_k(const float* x, std::uint8_t* block) {
  const Steps scales = fit_scales(x, 16, -32, 127, block + 208);
  for (int s = 0; s < 16; ++s) block[192 + s] = std::uint8_t(scales.counts[std::size_t(s)]);
  for (int i = 0; i < kWeights; ++i) {
    const int q = nearest_level(x[i], scales.of(i / 16), -32, 31) + 32;
    const int half = i / 128;
    const int quarter = i % 128 / 32;
    add_bits(block[64 * half + 32 * (quarter % 2) + i % 32], q & 15, 4 * (quarter / 2));
    add_bits(block[128 + 32 * half + i % 32], q >> 4, 2 * quarter);
  }
}

void quantize_iq4_xs(const float* x, std::uint8_t* block) {
  const Steps scales = fit_scales(x, 32, kNonLinear4[0], 31, block);
  for (int s = 0; s < 8; ++s) {
    const int field = scales.counts[std::size_t(s)] + 32;
    add_bits(block[2 + s / 4], field >> 4, 2 * (s % 4));
    add_bits(block[4 + s / 2], field & 15, 4 * (s % 2));
  }
  for (int i = 0; i < kWeights; ++i) {
    const int q = nearest_entry(kNonLinear4, x[i], scales.of(i / 32));
    add_bits(block[8 + 16 * (i / 32) + i % 16], q, i % 32 < 16 ? 0 : 4);
  }
}

}  // namespace rigcast::engine::ref
