#pragma once
// Quantization of F32 to block formats.

#include <cstddef>
#include <span>

#include "core/model/quant_format.hpp"

namespace rigcast::engine::ref {

/// Quantizes values by a simple rule (by a block's largest magnitude or range), for tests and small
/// models; optimizing quantizers do better. NaN is not allowed.
void quantize(QuantFormat format, std::span<const float> values, std::byte* blocks);

}  // namespace rigcast::engine::ref
