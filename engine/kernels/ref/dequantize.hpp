#pragma once
// Conversion of block formats to and from F32, one plain loop each: the specification against which
// every other kernel is tested. Layouts: ggml's public block definitions.

#include <cstddef>
#include <span>

#include "core/model/quant_format.hpp"

namespace rigcast::engine::ref {

/// Dequantizes `out.size()` weights, a multiple of the format's block; `blocks` need not be
/// aligned. Exact: every product and sum is rounded once to F32, in the order d * scale * q, then
/// minus dmin * m.
void dequantize(QuantFormat format, const std::byte* blocks, std::span<float> out);

/// Quantizes values by a simple rule (by a block's largest magnitude or range), for tests and small
/// models; optimizing quantizers do better. NaN is not allowed.
void quantize(QuantFormat format, std::span<const float> values, std::byte* blocks);

float half_to_float(std::uint16_t bits);
/// Rounds to nearest, ties to even; overflow gives infinity.
std::uint16_t float_to_half(float value);
float bfloat_to_float(std::uint16_t bits);
std::uint16_t float_to_bfloat(float value);

}  // namespace rigcast::engine::ref
