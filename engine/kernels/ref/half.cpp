#include "engine/kernels/ref/half.hpp"

#include <bit>

namespace rigcast::engine::ref {

float half_to_float(std::uint16_t bits) {
  const std::uint32_t sign = std::uint32_t(bits & 0x8000u) << 16;
  const std::uint32_t exponent = (bits >> 10) & 31u;
  const std::uint32_t mantissa = bits & 1023u;
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7F800000u | mantissa << 13);
  if (exponent > 0) return std::bit_cast<float>(sign | (exponent + 112u) << 23 | mantissa << 13);
  const float magnitude = float(mantissa) * 0x1p-24f;  // subnormal in FP16, normal in F32
  return sign != 0 ? -magnitude : magnitude;
}

std::uint16_t float_to_half(float value) {
  constexpr std::uint32_t kInfinity = 0x7F800000u;
  constexpr std::uint32_t kOverflow = 0x47800000u;        // 2^16
  constexpr std::uint32_t kSmallestNormal = 0x38800000u;  // 2^-14
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = (bits >> 16) & 0x8000u;
  const std::uint32_t magnitude = bits & 0x7FFFFFFFu;
  std::uint32_t out = 0;
  if (magnitude > kInfinity) {
    out = 0x7E00u | ((magnitude >> 13) & 1023u);  // a quiet NaN
  } else if (magnitude >= kOverflow) {
    out = 0x7C00u;
  } else if (magnitude >= kSmallestNormal) {
    // A carry out of the mantissa belongs to the exponent, up to infinity.
    out = (magnitude - (112u << 23) + 0xFFFu + ((magnitude >> 13) & 1u)) >> 13;
  } else {
    // The unit in the last place of 0.5 is 2^-24, the step of FP16's subnormals: so adding 0.5
    // rounds to it.
    const float sum = std::bit_cast<float>(magnitude) + 0.5f;
    out = std::bit_cast<std::uint32_t>(sum) - std::bit_cast<std::uint32_t>(0.5f);
  }
  return std::uint16_t(sign | out);
}

float bfloat_to_float(std::uint16_t bits) {
  return std::bit_cast<float>(std::uint32_t(bits) << 16);
}

std::uint16_t float_to_bfloat(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7FFFFFFFu) > 0x7F800000u) return std::uint16_t(bits >> 16 | 0x40u);  // stays NaN
  return std::uint16_t((bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16);
}

}  // namespace rigcast::engine::ref
