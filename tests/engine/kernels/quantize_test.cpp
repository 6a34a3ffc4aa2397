// The quantiser against the decoder: what comes back is near, and never NaN.

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "engine/kernels/ref/dequantize.hpp"
#include "engine/kernels/ref/quantize.hpp"
#include "tests/catch.hpp"

namespace rigcast::engine::ref {
namespace {

using enum QuantFormat;

constexpr std::size_t kCount = 4096;

std::vector<float> round_trip(QuantFormat f, const std::vector<float>& values) {
  std::vector<std::byte> blocks(values.size() / info(f).block_elements * info(f).block_bytes);
  quantize(f, values, blocks.data());
  std::vector<float> back(values.size());
  dequantize(f, blocks.data(), back);
  return back;
}

std::vector<float> wave(double offset) {
  std::vector<float> x(kCount);
  for (std::size_t i = 0; i < kCount; ++i) x[i] = float(0.1 + 2 * std::cos(double(i) + offset));
  return x;
}

// sqrt(sum of squared errors) / n
double error_of(QuantFormat f, double offset) {
  const std::vector<float> x = wave(offset);
  const std::vector<float> y = round_trip(f, x);
  double sum = 0;
  for (std::size_t i = 0; i < kCount; ++i) sum += std::pow(double(x[i]) - double(y[i]), 2);
  return std::sqrt(sum) / double(kCount);
}

// The wave reaches from -1.9 to 2.1. Codes that are a step apart leave errors of step / sqrt(12),
// and the figure divides by sqrt(4096) once more.
double limit(double step) { return step / std::sqrt(12.0) / 64; }

// The tolerance in steps of the widest block. Rounded scales widen a step, and codes that reach
// less far up than down clamp: a quarter more for one, a half more for both.
double limit_of(QuantFormat f) {
  switch (f) {
    case kF32: return 0;
    case kF16: return limit(0x1p-9);  // the last place from 2 on
    case kBF16: return limit(0x1p-6);
    case kQ8_0: return 1.25 * limit(2.1 / 127);
    case kQ6_K: return 1.25 * limit(2.1 / 32);
    case kQ5_0: return 1.25 * limit(2.1 / 16);
    case kQ5_1:
    case kQ5_K: return 1.25 * limit(4.0 / 31);
    case kQ4_0: return 1.5 * limit(2.1 / 8);
    case kQ4_1:
    case kQ4_K: return 1.25 * limit(4.0 / 15);
    case kQ3_K: return 1.5 * limit(2.1 / 4);
    case kQ2_K: return 1.25 * limit(4.0 / 3);
    case kIQ4_NL:
    case kIQ4_XS: return 1.5 * limit(2.1 * 24 / 127);  // the widest gap of the table
    case kMXFP4: return limit(0.5 * 2);                // between 2 and 3 times 0.5: 2 of 6 scales
    case kNVFP4:
      return 1.25 * limit(2.1 * 2 / 6);  // between 4 and 6
    // What ggml's tests allow its quantizers of this wave (tests/test-quantize-fns.cpp). Those know
    // no importance of weights either; of IQ1, as coarse as the ternary formats, they test none.
    case kIQ3_S: return 0.004;
    case kIQ3_XXS: return 0.005;
    case kIQ2_XXS:
    case kIQ2_XS:
    case kIQ2_S: return 0.0075;
    case kIQ1_S:
    case kIQ1_M:
    case kTQ1_0:
    case kTQ2_0: return 0.01;
    default: return 0;
  }
}

// True if a weight is no code of its own, or one of three.
bool is_coarse(QuantFormat f) { return f >= kIQ1_S && f <= kTQ2_0; }

void check_finite(QuantFormat f, const std::vector<float>& x) {
  for (const float v : round_trip(f, x)) REQUIRE(std::isfinite(v));
}

}  // namespace

TEST_CASE("A wave comes back within the step of its codes", "[quantize]") {
  for (int i = 0; i < kComputedFormatCount; ++i) {
    const auto f = QuantFormat(i);
    INFO(info(f).name);
    for (const double offset : {0.0, 1.0, 2.5}) {
      CHECK(error_of(f, offset) <= limit_of(f));
      if (info(f).bits_per_weight() > 4 && f != kNVFP4) CHECK(error_of(f, offset) < 0.002);
    }
  }
}

TEST_CASE("Dot products of quantised waves are near", "[quantize]") {
  const std::vector<float> x = wave(0);
  const std::vector<float> y = wave(1);
  // A group's rounded scale or min shifts all its weights alike. The 4-bit min of Q2_K is off by
  // up to 1.9 / 30, times the wave's mean magnitude of 1.3; the scales of NVFP4, of three bits
  // below the first, by a sixteenth; the others have finer steps.
  const auto most = [](QuantFormat f) {
    return f == kQ2_K ? 0.08 : f == kNVFP4 ? 0.08 : f == kQ3_K ? 0.04 : 0.02;
  };
  for (int i = 0; i < kComputedFormatCount; ++i) {
    const auto f = QuantFormat(i);
    if (is_coarse(f)) continue;
    INFO(info(f).name);
    const std::vector<float> back = round_trip(f, x);
    double difference = 0;
    for (std::size_t j = 0; j < kCount; ++j)
      difference += (double(back[j]) - double(x[j])) * double(y[j]);
    CHECK(std::abs(difference) / kCount < most(f));
  }
}

TEST_CASE("Blocks that scales cannot hold do not become NaN", "[quantize]") {
  constexpr float kMax = std::numeric_limits<float>::max();
  constexpr float kMin = std::numeric_limits<float>::denorm_min();
  for (int i = 0; i < kComputedFormatCount; ++i) {
    const auto f = QuantFormat(i);
    if (f == kF16 || f == kBF16) continue;  // beyond their range lies infinity
    INFO(info(f).name);
    for (const float v : {0.0f, -0.0f, 1.0f, -1.0f, 1e-3f, 65504.0f, 1e9f, -1e30f, kMax, -kMax,
                          1e-7f, -1e-12f, kMin}) {
      INFO("all " << v);
      check_finite(f, std::vector<float>(256, v));
      std::vector<float> mixed(256, v);
      for (std::size_t j = 0; j < mixed.size(); j += 3) mixed[j] = -v / 2;
      check_finite(f, mixed);
      std::vector<float> one(256);
      one[77] = v;
      check_finite(f, one);
    }
  }
}

// Undefined where a code is a whole number: run it under sanitizers too.
TEST_CASE("What is no number spoils its own block alone", "[quantize]") {
  for (const QuantFormat f : {kF16, kBF16, kQ4_0, kQ4_1, kQ5_0, kQ5_1, kQ8_0, kIQ4_NL, kMXFP4}) {
    INFO(info(f).name);
    const std::size_t block = info(f).block_elements;
    std::vector<float> x = wave(0);
    const std::vector<float> sound = round_trip(f, x);
    for (const float bad :
         {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
      x[block] = bad;
      std::vector<float> y = round_trip(f, x);
      for (std::size_t i = block; i < 2 * block; ++i) y[i] = sound[i];
      CHECK(y == sound);
    }
  }
}

TEST_CASE("Zeros come back as zeros", "[quantize]") {
  for (int i = 0; i < kComputedFormatCount; ++i) {
    INFO(info(QuantFormat(i)).name);
    CHECK(std::ranges::count(round_trip(QuantFormat(i), std::vector<float>(256)), 0.0f) == 256);
  }
}

TEST_CASE("What a block can hold comes back as it was", "[quantize]") {
  // Codes of every step, and scales that FP16 can represent.
  std::vector<float> steps(256);
  for (std::size_t i = 0; i < 256; ++i) steps[i] = float(int(i % 16) - 8) * 0.25f;
  CHECK(round_trip(kQ4_0, steps) == steps);
  CHECK(round_trip(kQ4_1, steps) == steps);
  CHECK(round_trip(kQ5_0, steps) == steps);
  for (std::size_t i = 0; i < 256; ++i) steps[i] = float(int(i % 32) - 16) * 0.25f;
  CHECK(round_trip(kQ5_1, steps) == steps);
  for (std::size_t i = 0; i < 256; ++i) steps[i] = float(int(i) - 128) * 0.5f;
  for (std::size_t i = 0; i < 256; i += 32) steps[i] = 127 * 0.5f;
  steps[0] = -127 * 0.5f;
  for (float& v : steps) v = std::max(v, -127 * 0.5f);
  CHECK(round_trip(kQ8_0, steps) == steps);
  const float fp4[] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
  for (std::size_t i = 0; i < 256; ++i) steps[i] = fp4[i % 8] * (i % 16 < 8 ? 0.125f : -0.125f);
  CHECK(round_trip(kMXFP4, steps) == steps);
  CHECK(round_trip(kNVFP4, steps) == steps);
  for (std::size_t i = 0; i < 256; ++i) steps[i] = float(int(i * i % 3) - 1) * 0.375f;
  CHECK(round_trip(kTQ1_0, steps) == steps);
  CHECK(round_trip(kTQ2_0, steps) == steps);
}

TEST_CASE("No other point of a grid is nearer than the one that a block gets", "[quantize]") {
  // Bytes that choose points and do nothing else: the first and how many.
  struct Indices {
    QuantFormat format;
    std::size_t first, count;
  };
  const Indices kIndices[] = {{kIQ1_S, 2, 32}, {kIQ1_M, 0, 32},   {kIQ2_XXS, 2, 4},
                              {kIQ2_S, 2, 32}, {kIQ3_XXS, 2, 64}, {kIQ3_S, 2, 64}};
  std::vector<float> x = wave(0);
  x.resize(256);
  for (const auto& [f, first, count] : kIndices) {
    INFO(info(f).name);
    std::vector<std::byte> block(info(f).block_bytes);
    quantize(f, x, block.data());
    const auto error = [&] {
      std::vector<float> back(256);
      dequantize(f, block.data(), back);
      double sum = 0;
      for (std::size_t i = 0; i < 256; ++i) sum += std::pow(double(back[i]) - double(x[i]), 2);
      return sum;
    };
    const double least = error();
    std::size_t nearer = 0;
    for (std::size_t i = first; i < first + count; ++i) {
      const std::byte own = block[i];
      for (int other = 0; other < 256; ++other) {
        block[i] = std::byte(other);
        nearer += error() < least - 1e-9;
      }
      block[i] = own;
    }
    CHECK(nearer == 0);
  }
}

TEST_CASE("A second round trip changes nothing of simple blocks", "[quantize]") {
  for (const QuantFormat f : {kF32, kF16, kBF16, kQ8_0, kMXFP4}) {
    INFO(info(f).name);
    const std::vector<float> once = round_trip(f, wave(0));
    CHECK(round_trip(f, once) == once);
  }
}

}  // namespace rigcast::engine::ref
