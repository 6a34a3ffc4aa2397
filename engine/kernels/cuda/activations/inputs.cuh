#pragma once
// Inputs and outputs of products with weights.

#include "engine/kernels/cuda/weights/matrix.cuh"

namespace rigcast::engine::cuda {

/// The activations of one token. F32, F16 and BF16 weights are multiplied with `floats`, all others
/// with `quantized`; a form that no matrix of a call needs may be null.
struct Inputs {
  QuantizedActivations quantized;
  const float* floats = nullptr;  // [columns], aligned to 16 bytes
};

/// Where the activations of the next product are written: in either form, or in both.
struct Outputs {
  QuantizedActivations quantized;  // q null: not written. Otherwise rows must be a multiple of 32
  float* floats = nullptr;         // [rows]
};

}  // namespace rigcast::engine::cuda
