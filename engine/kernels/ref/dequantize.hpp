#pragma once
// Block formats to and from F32, one obvious loop each: the specification that every other kernel
// is tested against. Layouts: ggml's public block definitions.

#include <cstddef>
#include <span>

#include "core/model/quant_format.hpp"

namespace rigcast::engine::ref {

/// `out.size()` weights, a multiple of the format's block, from as many blocks; `blocks` need not
/// be aligned. Exact: every product and sum is rounded once to F32, in the order d * scale * q,
/// then minus dmin * m.
void dequantize(QuantFormat format, const std::byte* blocks, std::span<float> out);

/// The nearest blocks that a simple rule finds (by the largest magnitude or the range of a block):
/// for tests and small models, not to compete with optimising quantisers. NaN is not allowed.
void quantize(QuantFormat format, std::span<const float> values, std::byte* blocks);

float half_to_float(std::uint16_t bits);
/// To nearest, ties to even; overflow gives infinity.
std::uint16_t float_to_half(float value);
float bfloat_to_float(std::uint16_t bits);
std::uint16_t float_to_bfloat(float value);

}  // namespace rigcast::engine::ref
