#pragma once
// Conversion of 16-bit floats (FP16, BF16) to and from F32.

#include <cstdint>

namespace rigcast::engine::ref {

float half_to_float(std::uint16_t bits);
/// Rounds to nearest, ties to even; overflow gives infinity.
std::uint16_t float_to_half(float value);
float bfloat_to_float(std::uint16_t bits);
std::uint16_t float_to_bfloat(float value);

}  // namespace rigcast::engine::ref
