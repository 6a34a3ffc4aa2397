#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "engine/kernels/cpu/elementwise.hpp"
#include "engine/kernels/ref/half.hpp"
#include "engine/kernels/ref/quantize.hpp"
#include "tests/catch.hpp"

namespace rigcast::engine::ref {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// A conversion by the definition of binary16, independent of the code under test.
double half_value(unsigned bits) {
  const int exponent = int(bits >> 10 & 31);
  const double mantissa = double(bits & 1023);
  const double magnitude =
      exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(mantissa + 1024, exponent - 25);
  return bits & 0x8000 ? -magnitude : magnitude;
}

}  // namespace

TEST_CASE("Every FP16 number has the value that its bits define, and survives a round trip",
          "[half]") {
  int wrong = 0;
  for (unsigned bits = 0; bits < 65536; ++bits) {
    const float value = half_to_float(std::uint16_t(bits));
    if ((bits & 0x7C00) == 0x7C00) continue;
    wrong += double(value) != half_value(bits) || std::signbit(value) != (bits >= 0x8000);
    wrong += float_to_half(value) != bits;
  }
  CHECK(wrong == 0);
}

TEST_CASE("Infinity and NaN stay what they are", "[half]") {
  CHECK(half_to_float(0x7C00) == kInfinity);
  CHECK(half_to_float(0xFC00) == -kInfinity);
  CHECK(float_to_half(kInfinity) == 0x7C00);
  CHECK(float_to_half(-kInfinity) == 0xFC00);
  CHECK(float_to_bfloat(kInfinity) == 0x7F80);
  CHECK(bfloat_to_float(0xFF80) == -kInfinity);
  for (unsigned bits = 0x7C01; bits < 0x8000; ++bits) {
    const float value = half_to_float(std::uint16_t(bits));
    REQUIRE(std::isnan(value));
    REQUIRE(std::isnan(half_to_float(float_to_half(value))));
    REQUIRE(std::isnan(bfloat_to_float(float_to_bfloat(value))));
  }
}

TEST_CASE("Halves are rounded to the nearest, ties to even", "[half]") {
  CHECK(float_to_half(1 + 0x1p-11f) == 0x3C00);    // a tie: the last bit of 1.0 is 0
  CHECK(float_to_half(1 + 0x1.8p-10f) == 0x3C02);  // a tie: up to the even one
  CHECK(float_to_half(1 + 0x1.01p-11f) == 0x3C01);
  CHECK(float_to_half(65519.996f) == 0x7BFF);
  CHECK(float_to_half(65520) == 0x7C00);  // half way to 65536
  CHECK(float_to_half(1e38f) == 0x7C00);
  CHECK(float_to_half(0x1p-24f) == 0x0001);
  CHECK(float_to_half(0x1p-25f) == 0x0000);  // a tie with 0
  CHECK(float_to_half(0x1.8p-24f) == 0x0002);
  CHECK(float_to_half(-0x1.0002p-25f) == 0x8001);
  CHECK(float_to_half(-0.0f) == 0x8000);
  CHECK(float_to_half(0x1.FFFp-15f) == 0x0400);  // up from the largest subnormal
}

TEST_CASE("No half is nearer than the one chosen", "[half]") {
  std::mt19937 random(1);
  std::uniform_real_distribution<float> exponent(-27, 16);
  int wrong = 0;
  for (int i = 0; i < 200000; ++i) {
    const float value = std::exp2(exponent(random));
    const unsigned bits = float_to_half(value);
    if (bits == 0x7C00) {
      wrong += value < 65520;
      continue;
    }
    const double error = std::abs(half_value(bits) - double(value));
    if (bits > 0) wrong += std::abs(half_value(bits - 1) - double(value)) < error;
    if (bits < 0x7BFF) wrong += std::abs(half_value(bits + 1) - double(value)) < error;
  }
  CHECK(wrong == 0);
}

TEST_CASE("A bfloat is the upper half of an F32, rounded to even", "[half]") {
  CHECK(bfloat_to_float(0x3FC0) == 1.5f);
  CHECK(bfloat_to_float(0x0001) == 0x1p-133f);
  CHECK(float_to_bfloat(1 + 0x1p-8f) == 0x3F80);
  CHECK(float_to_bfloat(1 + 0x1.8p-7f) == 0x3F82);
  CHECK(float_to_bfloat(-1.0f - 0x1.02p-8f) == 0xBF81);
  CHECK(float_to_bfloat(std::numeric_limits<float>::max()) == 0x7F80);
}

TEST_CASE("Vectors of halves are those of the definition", "[engine][half]") {
  // Every FP16 number, midpoints between two of them and their neighbours, and values that are too
  // large.
  std::vector<float> values;
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    if ((bits & 0x7c00) == 0x7c00 && (bits & 0x3ff) != 0)
      continue;  // any NaN may stand for another
    const float v = ref::half_to_float(std::uint16_t(bits));
    const float next = ref::half_to_float(std::uint16_t(bits + 1));
    values.push_back(v);
    if (!std::isfinite(v) || !std::isfinite(next)) continue;
    const float middle = (v + next) / 2;
    for (const float near : {middle, std::nextafter(middle, v), std::nextafter(middle, next)})
      values.push_back(near);
  }
  for (const float large : {65519.0f, 65520.0f, 1e6f, -65520.0f, 1e-9f, -1e-9f})
    values.push_back(large);
  std::vector<std::byte> fast(2 * values.size()), plain(fast.size());
  cpu::to_fp16(values, fast.data());
  ref::quantize(QuantFormat::kF16, values, plain.data());
  CHECK(fast == plain);
}

}  // namespace rigcast::engine::ref
