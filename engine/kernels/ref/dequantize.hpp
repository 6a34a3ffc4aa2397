#pragma once
// Dequantization of block formats to F32, one plain loop each: the specification against which
// every other kernel is tested. Layouts: ggml's public block definitions.

#include <cstddef>
#include <span>

#include "core/model/quant_format.hpp"

namespace rigcast::engine::ref {

/// Dequantizes `out.size()` weights, a multiple of the format's block; `blocks` need not be
/// aligned. Exact: every product and sum is rounded once to F32, in the order d * scale * q, then
/// minus dmin * m.
void dequantize(QuantFormat format, const std::byte* blocks, std::span<float> out);

}  // namespace rigcast::engine::ref
