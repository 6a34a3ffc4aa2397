#pragma once
// What goes into products with weights, and what comes out of them for the next.

#include "engine/kernels/cuda/weights/matrix.cuh"

namespace rigcast::engine::cuda {

/// The activations of one token. F32, F16 and BF16 weights take `floats`, all others `rounded`;
/// what no matrix of a call takes may be null.
struct Inputs {
  Rounded rounded;
  const float* floats = nullptr;  // [columns], aligned to 16 bytes
};

/// Where activations for the next product go: either or both.
struct Outputs {
  Rounded rounded;          // q null: none. Then rows must be a multiple of 32
  float* floats = nullptr;  // [rows]
};

}  // namespace rigcast::engine::cuda
