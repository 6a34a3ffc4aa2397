#include "engine/kernels/ref/dequantize.hpp"

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "tests/catch.hpp"

namespace rigcast::engine::ref {
namespace {

using enum QuantFormat;
using Bytes = std::vector<std::uint8_t>;
using Sets = std::vector<std::pair<std::size_t, int>>;  // offset and byte
using Weights = std::vector<std::pair<std::size_t, float>>;

std::vector<float> decode(QuantFormat f, const Bytes& bytes) {
  std::vector<float> out(bytes.size() / info(f).block_bytes * info(f).block_elements);
  dequantize(f, reinterpret_cast<const std::byte*>(bytes.data()), out);
  return out;
}

// A block of zeros but for some bytes.
std::vector<float> decode_with(QuantFormat f, const Sets& sets) {
  Bytes block(info(f).block_bytes);
  for (const auto& [at, byte] : sets) block[at] = std::uint8_t(byte);
  return decode(f, block);
}

void check_weights(const std::vector<float>& w, const Weights& expected) {
  for (const auto& [at, value] : expected) {
    INFO("weight " << at);
    CHECK(w[at] == value);
  }
}

// Byte i of the block is 37 i + 11, but for the given ones.
struct Known {
  QuantFormat format;
  Sets sets;
  double sum;
  double sum_of_magnitudes;
  Weights weights;
};

const std::vector<Known> kKnown = {
    {kQ4_0,
     {{0, 0}, {1, 0x2C}},
     -1.3125,
     7.6875,
     {{0, -0.1875f}, {1, 0.125f}, {15, -0.5f}, {16, -0.1875f}, {31, 0}}},
    {kQ8_0,
     {{0, 0}, {1, 0x2C}},
     -11,
     135.75,
     {{0, 5.3125f}, {1, 7.625f}, {15, -8}, {16, -5.6875f}, {31, -3}}},
    {kQ4_K,
     {{0, 0}, {1, 0x2C}, {2, 0}, {3, 0x28}},
     3402.5,
     3439.25,
     {{0, 19.71875f},
      {1, -1.59375f},
      {32, 0.5f},
      {64, 26.28125f},
      {100, 5.9375f},
      {128, 26.4375f},
      {200, 8.65625f},
      {255, 3.03125f}}},
    {kQ5_K,
     {{0, 0}, {1, 0x2C}, {2, 0}, {3, 0x28}},
     7263.5,
     7284.9375,
     {{0, 50.71875f},
      {1, -1.59375f},
      {32, 7},
      {63, 5},
      {100, 14.6875f},
      {127, -0.1875f},
      {128, 65.4375f},
      {191, 40.3125f},
      {255, 6.78125f}}},
    {kQ6_K,
     {{208, 0}, {209, 0x2C}},
     288.25,
     16656.375,
     {{0, -89.4375f},
      {1, 106},
      {15, -19.875f},
      {16, -27},
      {32, 14.4375f},
      {64, -190},
      {100, 157.6875f},
      {127, 93.75f},
      {191, -61.25f},
      {255, -3.75f}}},
    {kMXFP4,
     {{0, 0x7C}},
     1.5625,
     9.4375,
     {{0, 0}, {1, 0.375f}, {15, -0.1875f}, {16, 0.1875f}, {31, 0.375f}}},
};

}  // namespace

TEST_CASE("Blocks of known bytes decode to known weights", "[dequantize]") {
  for (const Known& k : kKnown) {
    INFO(info(k.format).name);
    Bytes block(info(k.format).block_bytes);
    for (std::size_t i = 0; i < block.size(); ++i) block[i] = std::uint8_t(37 * i + 11);
    for (const auto& [at, byte] : k.sets) block[at] = std::uint8_t(byte);
    const std::vector<float> w = decode(k.format, block);
    double sum = 0;
    double magnitudes = 0;
    for (const float v : w) {
      sum += double(v);
      magnitudes += std::abs(double(v));
    }
    CHECK(sum == k.sum);
    CHECK(magnitudes == k.sum_of_magnitudes);
    check_weights(w, k.weights);
  }
}

TEST_CASE("Floats are read little-endian", "[dequantize]") {
  CHECK(decode(kF32, {0x00, 0x00, 0xC0, 0x3F, 0, 0, 0, 0x80}) == std::vector<float>{1.5f, -0.0f});
  CHECK(decode(kF16, {0x00, 0x3E, 0x00, 0xC0}) == std::vector<float>{1.5f, -2.0f});
  CHECK(decode(kBF16, {0xC0, 0xBF, 0x00, 0x40}) == std::vector<float>{-1.5f, 2.0f});
}

TEST_CASE("Q4_1 by hand", "[dequantize]") {
  // d = 0x3800 = 0.5, m = 0xBC00 = -1; the first byte of codes is 0x52: w0 has 2, w16 has 5.
  const auto w = decode_with(kQ4_1, {{1, 0x38}, {3, 0xBC}, {4, 0x52}});
  check_weights(w, {{0, 0.5f * 2 - 1}, {16, 0.5f * 5 - 1}, {1, -1.0f}, {31, -1.0f}});
}

TEST_CASE("Q5_0 by hand", "[dequantize]") {
  // d = 1; fifth bits 0 and 31 are set. Codes: w0 1 + 16, w16 2, w15 3, w31 15 + 16; 16 is 0.
  const auto w = decode_with(kQ5_0, {{1, 0x3C}, {2, 0x01}, {5, 0x80}, {6, 0x21}, {21, 0xF3}});
  check_weights(w, {{0, 1}, {16, -14}, {15, -13}, {31, 15}, {1, -16}, {17, -16}});
}

TEST_CASE("Q5_1 by hand", "[dequantize]") {
  // d = 2, m = 1; fifth bits 8 and 24 are set. Codes: w8 12 + 16, w24 4 + 16.
  const auto w = decode_with(kQ5_1, {{1, 0x40}, {3, 0x3C}, {5, 0x01}, {7, 0x01}, {16, 0x4C}});
  check_weights(w, {{8, 2 * 28 + 1}, {24, 2 * 20 + 1}, {0, 1}, {16, 1}});
}

TEST_CASE("Q2_K by hand", "[dequantize]") {
  // d = 1, dmin = 0.5. Byte 16 has the codes 0, 1, 2, 3 of w0, w32, w64, w96: groups 0, 2, 4, 6.
  // Byte 64 = 16 + 32 + 16 has 2 and 3 of w144 and w240: groups 9 and 15.
  const auto w = decode_with(kQ2_K, {{81, 0x3C},
                                     {83, 0x38},
                                     {16, 0xE4},
                                     {64, 0xC2},
                                     {0, 0x21},
                                     {2, 0x01},
                                     {4, 0x02},
                                     {6, 0x4F},
                                     {9, 0x13},
                                     {15, 0xF5}});
  check_weights(w, {{0, 1 * 0 - 0.5f * 2},
                    {1, -0.5f * 2},
                    {32, 1 * 1 - 0},
                    {64, 2 * 2 - 0},
                    {96, 15 * 3 - 0.5f * 4},
                    {144, 3 * 2 - 0.5f * 1},
                    {240, 5 * 3 - 0.5f * 15},
                    {128, 0}});
}

TEST_CASE("Q3_K by hand", "[dequantize]") {
  const auto w =
      decode_with(kQ3_K, {{109, 0x38},  // d = 0.5
                                        // Scales: group 0 has 1 | 2 << 4 = 33, which is 1
                          {96, 0x01},
                          {104, 0x02},
                          // group 5: 7 | 3 << 4 = 55, 23
                          {101, 0x07},
                          {105, 0x0C},
                          // group 10: 12 | 0 << 4, -20
                          {98, 0xC0},
                          // group 15: 10 | 2 << 4 = 42, 10
                          {103, 0xA0},
                          {107, 0x80},
                          // w0: 3, high bit set; w1: 1, not set
                          {32, 0x03},
                          {33, 0x01},
                          // w80 = 2 * 32 + 16: 2, bit 2 of byte 16 is set
                          {48, 0x20},
                          // w160 = 128 + 32: 1, bit 5 of byte 0 is not set
                          {64, 0x04},
                          // w255: 1, bit 7 of byte 31 is set
                          {95, 0x40},
                          {0, 0x01},
                          {16, 0x04},
                          {31, 0x80}});
  check_weights(w, {{0, 0.5f * 1 * 3},
                    {1, 0.5f * 1 * (1 - 4)},
                    {80, 0.5f * 23 * 2},
                    {160, 0.5f * -20 * (1 - 4)},
                    {255, 0.5f * 10 * 1},
                    {128, 0.5f * -32 * (0 - 4)}});  // group 8: a field of 0 is -32
}

TEST_CASE("IQ4_NL by hand", "[dequantize]") {
  // d = 0.5. Codes 0, 8, 7 and 15 stand for -127, 1, -10 and 113.
  const auto w = decode_with(kIQ4_NL, {{1, 0x38}, {2, 0x80}, {17, 0xF7}});
  check_weights(w, {{0, -63.5f}, {16, 0.5f}, {15, -5}, {31, 56.5f}, {1, -63.5f}});
}

TEST_CASE("IQ4_XS by hand", "[dequantize]") {
  // d = 1. Scales: group 0 has 1 | 2 << 4 = 33, which is 1; group 7 15 | 1 << 4 = 31, -1; the rest
  // 0, -32. Codes 15, 0 and 8, 9 stand for 113, -127 and 1, 13.
  const auto w = decode_with(
      kIQ4_XS, {{1, 0x3C}, {2, 0x02}, {3, 0x40}, {4, 0x01}, {7, 0xF0}, {8, 0x0F}, {135, 0x98}});
  check_weights(w, {{0, 113}, {16, -127}, {239, -1}, {255, -13}, {32, -32.0f * -127}});
}

TEST_CASE("MXFP4 scales reach from subnormals to overflow", "[dequantize]") {
  const auto one = [](int e, int code) { return decode_with(kMXFP4, {{0, e}, {1, code}})[0]; };
  CHECK(one(127, 2) == 1);
  CHECK(one(127, 15) == -6);
  CHECK(one(0, 1) == 0x1p-128f);
  CHECK(one(1, 1) == 0x1p-127f);
  CHECK(one(2, 1) == 0x1p-126f);
  CHECK(one(254, 2) == 0x1p127f);
}

TEST_CASE("Edge scales decode as arithmetic says", "[dequantize]") {
  // FP16 subnormals, -0 and the largest FP16 number; codes of Q8_0 reach from -128 to 127.
  const auto q8 = [](int low, int high, int code) {
    return decode_with(kQ8_0, {{0, low}, {1, high}, {2, code}})[0];
  };
  CHECK(q8(0x01, 0x00, 127) == 127 * 0x1p-24f);
  CHECK(q8(0xFF, 0x7B, 0x80) == -128 * 65504.0f);
  CHECK(q8(0x00, 0x80, 5) == 0);
  CHECK(std::signbit(q8(0x00, 0x80, 5)));
  CHECK(q8(0x00, 0x7C, 0x81) == -std::numeric_limits<float>::infinity());
}

TEST_CASE("Any bytes decode, at any address, block by block", "[dequantize]") {
  std::mt19937_64 random(7);
  for (int i = 0; i < kComputedFormatCount; ++i) {
    const auto f = QuantFormat(i);
    INFO(info(f).name);
    constexpr std::size_t kBlocks = 64;
    Bytes bytes(kBlocks * info(f).block_bytes);
    for (auto& b : bytes) b = std::uint8_t(random());
    const std::vector<float> all = decode(f, bytes);
    // The last block alone, from an odd address.
    const std::size_t last = bytes.size() - info(f).block_bytes;
    Bytes moved(info(f).block_bytes + 1);
    std::memcpy(moved.data() + 1, bytes.data() + last, info(f).block_bytes);
    std::vector<float> alone(info(f).block_elements);
    dequantize(f, reinterpret_cast<const std::byte*>(moved.data() + 1), alone);
    const float* expected = all.data() + all.size() - alone.size();
    CHECK(std::memcmp(alone.data(), expected, alone.size() * sizeof(float)) == 0);
  }
}

}  // namespace rigcast::engine::ref
