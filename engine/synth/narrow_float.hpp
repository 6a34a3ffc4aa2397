#pragma once
// Branch-free conversion of F32 to 16 bits, for loops over many small numbers.

#include <cstdint>
#include <cstring>

#include "engine/synth/host_device.hpp"

namespace rigcast::engine {

/// std::bit_cast, which kernels do not have.
template <class To, class From>
RIGCAST_HOST_DEVICE inline To same_bits(From from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  std::memcpy(&to, &from, sizeof to);
  return to;
}

/// The nearest FP16 number, ties to even, of a number below 65504 in magnitude.
RIGCAST_HOST_DEVICE inline std::uint16_t small_to_fp16(float value) {
  const auto bits = same_bits<std::uint32_t>(value);
  const std::uint32_t magnitude = bits & 0x7FFFFFFFu;
  const std::uint32_t normal = (magnitude - (112u << 23) + 0xFFFu + ((magnitude >> 13) & 1u)) >> 13;
  // The unit in the last place of 0.5 is 2^-24, the step of FP16's subnormals: so adding 0.5 rounds
  // to it.
  const float sum = same_bits<float>(magnitude) + 0.5f;
  const std::uint32_t subnormal = same_bits<std::uint32_t>(sum) - 0x3F000000u;
  // A mask is used instead of a condition, which would keep the loop around it from being
  // vectorized.
  const std::uint32_t is_subnormal = 0u - std::uint32_t(magnitude < 0x38800000u);
  const std::uint32_t half = normal ^ ((normal ^ subnormal) & is_subnormal);
  return std::uint16_t((bits >> 16 & 0x8000u) | half);
}

/// The nearest bfloat, ties to even, of a finite number.
RIGCAST_HOST_DEVICE inline std::uint16_t finite_to_bfloat(float value) {
  const auto bits = same_bits<std::uint32_t>(value);
  return std::uint16_t((bits + 0x7FFFu + (bits >> 16 & 1u)) >> 16);
}

}  // namespace rigcast::engine
