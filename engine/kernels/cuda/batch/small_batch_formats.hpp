#pragma once
// The weight formats that a small batch, and the experts of any batch, are multiplied with
// directly.

#include "core/model/quant_format.hpp"

namespace rigcast::engine::cuda {

/// True for the formats of quant blocks. Weights that are floats are multiplied by cuBLAS.
constexpr bool supports_small_batch_gemm(QuantFormat format) {
  using enum QuantFormat;
  switch (format) {
    case kQ4_0:
    case kQ4_1:
    case kQ5_0:
    case kQ5_1:
    case kQ8_0:
    case kQ2_K:
    case kQ3_K:
    case kQ4_K:
    case kQ5_K:
    case kQ6_K:
    case kIQ4_NL:
    case kIQ4_XS:
    case kMXFP4:
    case kIQ1_S:
    case kIQ1_M:
    case kIQ2_XXS:
    case kIQ2_XS:
    case kIQ2_S:
    case kIQ3_XXS:
    case kIQ3_S:
    case kTQ1_0:
    case kTQ2_0:
    case kNVFP4: return true;
    default: return false;  // floats, and formats that the engine does not compute with
  }
}

/// True if the formats of a layer's experts support grouped products. The layer may be a Layer or a
/// DeviceLayer.
template <class AnyLayer>
bool supports_grouped_gemm(const AnyLayer& layer) {
  const auto& gate = layer.expert_gate.first;  // there may be none
  return (gate.rows == 0 || supports_small_batch_gemm(gate.format)) &&
         supports_small_batch_gemm(layer.expert_up.first.format) &&
         supports_small_batch_gemm(layer.expert_down.first.format);
}

}  // namespace rigcast::engine::cuda
