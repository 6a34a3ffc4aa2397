#include "engine/synth/weight_scales.hpp"

#include <array>
#include <cmath>

#include "core/base/error.hpp"
#include "engine/kernels/ref/block_tables.hpp"
#include "engine/kernels/ref/dequantize_grids.hpp"
#include "engine/kernels/ref/grids.hpp"
#include "engine/kernels/ref/half.hpp"

namespace rigcast::engine {
namespace {

using enum QuantFormat;

// The mean square of the integers from low to high.
double mean_square(int low, int high) {
  double sum = 0;
  for (int i = low; i <= high; ++i) sum += double(i) * i;
  return sum / (high - low + 1);
}

double mean_square(const std::array<std::int8_t, 16>& table) {
  double sum = 0;
  for (const int v : table) sum += v * v;
  return sum / 16;
}

// The variance of the integers 0..n - 1.
double variance(int n) { return (double(n) * n - 1) / 12; }

// The variance of the odd numbers from 1 - n to n - 1: n levels with a step of 2.
double odd_variance(double n) { return (n * n - 1) / 3; }

// The mean square of a grid's values, each of which is `offset` more than what it stands for.
template <class Word, std::size_t kPoints>
double mean_square(const ref::Grid<Word, kPoints>& grid, double offset = 0) {
  double sum = 0;
  for (const Word point : grid.at)
    for (std::size_t k = 0; k < sizeof point; ++k) {
      const double value = double(point >> (8 * k) & 255) - offset;
      sum += value * value;
    }
  return sum / double(kPoints * sizeof(Word));
}

// The mean square of 2 n + 1 for n from 0 to `most`.
double odd_mean_square(int most) {
  double sum = 0;
  for (int n = 0; n <= most; ++n) sum += (2.0 * n + 1) * (2 * n + 1);
  return sum / (most + 1);
}

// Of random bytes of five base-3 digits, the last four of which have four. A decoder takes any.
double ternary_mean_square() {
  const auto of_digits = [](int byte, int count) {
    int ones = 0;
    for (int n = 0, left = byte; n < count; ++n, left = left * 3 & 255) ones += left * 3 / 256 != 1;
    return ones;
  };
  double sum = 0;
  for (int byte = 0; byte < 256; ++byte) sum += 48 * of_digits(byte, 5) + 4 * of_digits(byte, 4);
  return sum / (256 * 256);
}

// The variance of a weight if d is 1. Sub-scales: as synth.cpp draws them.
double variance_at_unit_d(QuantFormat f) {
  switch (f) {
    case kQ4_0: return mean_square(-8, 7);
    case kQ5_0: return mean_square(-16, 15);
    case kQ8_0: return mean_square(-128, 127);
    case kQ4_1: return variance(16);
    case kQ5_1: return variance(32);
    case kQ2_K: return mean_square(8, 15) * variance(4);
    case kQ4_K: return mean_square(32, 63) * variance(16);
    case kQ5_K: return mean_square(32, 63) * variance(32);
    case kQ3_K: return mean_square(-32, 31) * mean_square(-4, 3);
    case kQ6_K: return mean_square(-128, 127) * mean_square(-32, 31);
    case kIQ4_NL: return mean_square(ref::kNonLinear4);
    case kIQ4_XS: return mean_square(-32, 31) * mean_square(ref::kNonLinear4);
    case kF32: return odd_variance(1 << 24);
    case kF16:
    case kBF16: return odd_variance(1 << 16);
    case kMXFP4:
    case kNVFP4: return mean_square(ref::kTwiceE2M1);  // all scales are of bytes
    case kIQ1_S:
    case kIQ1_M: return odd_mean_square(7) / 64 * (mean_square(ref::kIq1Grid, 8) + 1);
    case kIQ2_XXS: return odd_mean_square(15) / 64 * mean_square(ref::kIq2XxsGrid);
    case kIQ2_XS: return odd_mean_square(15) / 64 * mean_square(ref::kIq2XsGrid);
    case kIQ2_S: return odd_mean_square(15) / 64 * mean_square(ref::kIq2SGrid);
    case kIQ3_XXS: return odd_mean_square(15) / 16 * mean_square(ref::kIq3XxsGrid);
    case kIQ3_S: return odd_mean_square(15) * mean_square(ref::kIq3SGrid);
    case kTQ1_0: return ternary_mean_square();
    case kTQ2_0: return mean_square(-1, 2);
    default: RIGCAST_ASSERT(!"a format that the engine computes with");
  }
}

// The mean of codes 0..n - 1, which a min or an offset subtracts.
double mean_code(QuantFormat f) {
  switch (f) {
    case kQ2_K: return 1.5;
    case kQ4_K: return 7.5;
    case kQ5_K: return 15.5;
    case kQ4_1: return -7.5;  // added, not subtracted
    case kQ5_1: return -15.5;
    default: return 0;
  }
}

// Chooses two neighbouring powers of two and their ratio, so that the mean square is as wanted.
void set_exponents(double wanted, WeightScales& s) {
  const double square = wanted * wanted;
  int power = 0;
  while (std::ldexp(1.0, 2 * power) > square) --power;
  const double low = std::ldexp(1.0, 2 * power);
  // The exponent is that of twice the scale, because the codes are doubled.
  s.exponent = std::uint8_t(power + 128);
  s.doubled_of_256 = int(std::nearbyint(256 * (square / low - 1) / 3));
}

// The same of NVFP4's scales: two neighbouring bytes of E4M3.
void set_e4m3(double wanted, WeightScales& s) {
  const double square = wanted * wanted;
  const auto square_of = [](int code) {  // of half the scale, because the codes are doubled
    const double scale = 0.5 * double(ref::unsigned_e4m3(code));
    return scale * scale;
  };
  int code = 0;
  while (code < 125 && square_of(code + 1) <= square) ++code;
  s.exponent = std::uint8_t(code);
  const double share = (square - square_of(code)) / (square_of(code + 1) - square_of(code));
  s.doubled_of_256 = int(std::nearbyint(256 * share));
}

// Values near `centre` in steps of a power of two: these are exact, and so the same with a fused
// multiply-add.
WeightScales around(QuantFormat f, float centre, int log2_of_reach) {
  WeightScales s;
  s.centre = centre;
  s.step = std::ldexp(1.0f, log2_of_reach - (f == kF32 ? 24 : 16));
  return s;
}

// The deviation of a matrix's weights. In models with experts the embedding outweighs what all
// attention adds, which is what tokens have in common.
double deviation_of(const Tensor& t, bool routes) {
  const double usual = 1 / std::sqrt(double(t.shape[0]));
  if (routes && t.role == TensorRole::kTokenEmbedding) return 4;
  if (routes && t.role == TensorRole::kAttentionOutput) return usual / 4;
  return usual;
}

}  // namespace

WeightScales weight_scales(const Tensor& t, SynthTraits traits) {
  const bool whole_floats = info(t.format).block_elements == 1;
  if (t.name.ends_with(".ssm_a")) return around(t.format, -1, -3);  // states decay
  if (t.role == TensorRole::kNorm || t.role == TensorRole::kBias || t.role == TensorRole::kRope) {
    RIGCAST_ASSERT(whole_floats);
    // The power of two above 1 / sqrt(width of a head), which is exact.
    const int lower = traits.unscaled_scores && t.name.ends_with(".attn_q_norm.weight")
                          ? std::ilogb(std::sqrt(double(t.shape[0])))
                          : 0;
    // The router's input is divided by the root of its width.
    if (t.name.ends_with(".ffn_gate_inp.scale")) {
      const int root = std::ilogb(std::sqrt(double(t.shape[0])));
      return around(t.format, std::ldexp(1.0f, root), root - 3);
    }
    if (t.role == TensorRole::kNorm) return around(t.format, std::ldexp(1.0f, -lower), -3 - lower);
    if (t.role == TensorRole::kBias) return around(t.format, 0, -5);
    WeightScales ones;
    ones.centre = 1;
    return ones;
  }
  const double deviation = deviation_of(t, traits.routes);
  const double unit = deviation / std::sqrt(variance_at_unit_d(t.format));
  WeightScales s;
  s.step = float(unit);
  if (whole_floats) return s;
  if (t.format == kMXFP4) {
    set_exponents(unit, s);
    return s;
  }
  if (t.format == kNVFP4) {
    set_e4m3(unit, s);
    return s;
  }
  s.d = ref::float_to_half(float(unit));
  s.dmin = ref::float_to_half(float(mean_code(t.format)) * ref::half_to_float(s.d));
  return s;
}

}  // namespace rigcast::engine
