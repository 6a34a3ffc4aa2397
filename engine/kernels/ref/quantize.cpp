#include "engine/kernels/ref/quantize.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "core/base/error.hpp"
#include "engine/kernels/ref/block_tables.hpp"
#include "engine/kernels/ref/half.hpp"
#include "engine/kernels/ref/quantize_grids.hpp"
#include "engine/kernels/ref/quantize_k.hpp"
#include "engine/kernels/ref/quantize_steps.hpp"

// Every field is rounded before codes are chosen, so that codes are nearest to the values that a
// reader will see. Fields stay finite, so that no block decodes to NaN.

namespace rigcast::engine::ref {
namespace {

void put_u16(std::uint8_t* at, unsigned value) {
  at[0] = std::uint8_t(value);
  at[1] = std::uint8_t(value >> 8);
}

void f32(const float* x, std::uint8_t* b) { std::memcpy(b, x, 4); }
void f16(const float* x, std::uint8_t* b) { put_u16(b, float_to_half(x[0])); }
void bf16(const float* x, std::uint8_t* b) { put_u16(b, float_to_bfloat(x[0])); }

void put_nibble(std::uint8_t* codes, int i, int q) {
  std::uint8_t& byte = codes[i % 16];
  byte = std::uint8_t(byte | q << (i < 16 ? 0 : 4));
}

void put_fifth_bit(std::uint8_t* bits, int i, int q) {
  bits[i / 8] = std::uint8_t(bits[i / 8] | (q >> 4) << (i % 8));
}

void q4_0(const float* x, std::uint8_t* b) {
  const float d = put_half(b, double(largest(x, 32)) / -8.0);
  for (int i = 0; i < 32; ++i) put_nibble(b + 2, i, nearest_level(x[i], d, -8, 7) + 8);
}

void q4_1(const float* x, std::uint8_t* b) {
  const Range r = range_of(x, 32);
  const float d = put_half(b, (r.high - r.low) / 15.0);
  const float m = put_half(b + 2, r.low);
  for (int i = 0; i < 32; ++i)
    put_nibble(b + 4, i, nearest_level(double(x[i]) - double(m), d, 0, 15));
}

void q5_0(const float* x, std::uint8_t* b) {
  const float d = put_half(b, double(largest(x, 32)) / -16.0);
  for (int i = 0; i < 32; ++i) {
    const int q = nearest_level(x[i], d, -16, 15) + 16;
    put_nibble(b + 6, i, q & 15);
    put_fifth_bit(b + 2, i, q);
  }
}

void q5_1(const float* x, std::uint8_t* b) {
  const Range r = range_of(x, 32);
  const float d = put_half(b, (r.high - r.low) / 31.0);
  const float m = put_half(b + 2, r.low);
  for (int i = 0; i < 32; ++i) {
    const int q = nearest_level(double(x[i]) - double(m), d, 0, 31);
    put_nibble(b + 8, i, q & 15);
    put_fifth_bit(b + 4, i, q);
  }
}

void q8_0(const float* x, std::uint8_t* b) {
  const float d = put_half(b, std::abs(double(largest(x, 32))) / 127.0);
  for (int i = 0; i < 32; ++i) b[2 + i] = std::uint8_t(nearest_level(x[i], d, -127, 127));
}

void iq4_nl(const float* x, std::uint8_t* b) {
  const float d = put_half(b, double(largest(x, 32)) / kNonLinear4[0]);
  for (int i = 0; i < 32; ++i) put_nibble(b + 2, i, nearest_entry(kNonLinear4, x[i], d));
}

void mxfp4(const float* x, std::uint8_t* b) {
  // The largest magnitude is in [4, 8) scales. Values beyond 6 scales are clamped, which costs less
  // than a step twice as wide.
  const double most = std::min(std::abs(double(largest(x, 32))), 0x1p127);
  const int power = most > 0 ? std::ilogb(most) - 2 : -127;
  const int e = std::clamp(power + 127, 0, 254);
  b[0] = std::uint8_t(e);
  const double half_scale = std::ldexp(1.0, e - 128);
  for (int i = 0; i < 32; ++i) put_nibble(b + 1, i, nearest_entry(kTwiceE2M1, x[i], half_scale));
}

using Encode = void (*)(const float*, std::uint8_t*);
constexpr std::array<Encode, kComputedFormatCount> kEncoders = {  // in the order of QuantFormat
    f32,
    f16,
    bf16,
    q4_0,
    q4_1,
    q5_0,
    q5_1,
    q8_0,
    quantize_q2_k,
    quantize_q3_k,
    quantize_q4_k,
    quantize_q5_k,
    quantize_q6_k,
    iq4_nl,
    quantize_iq4_xs,
    mxfp4,
    quantize_iq1_s,
    quantize_iq1_m,
    quantize_iq2_xxs,
    quantize_iq2_xs,
    quantize_iq2_s,
    quantize_iq3_xxs,
    quantize_iq3_s,
    quantize_tq1_0,
    quantize_tq2_0,
    quantize_nvfp4};

}  // namespace

void quantize(QuantFormat format, std::span<const float> values, std::byte* blocks) {
  const QuantFormatInfo& f = info(format);
  RIGCAST_ASSERT(is_computed(format) && values.size() % f.block_elements == 0);
  auto* block = reinterpret_cast<std::uint8_t*>(blocks);
  for (std::size_t i = 0; i < values.size(); i += f.block_elements, block += f.block_bytes) {
    std::memset(block, 0, f.block_bytes);
    kEncoders[std::size_t(format)](values.data() + i, block);
  }
}

}  // namespace rigcast::engine::ref
