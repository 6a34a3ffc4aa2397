#pragma once
// Weights and activations in the layout that the GPU's kernels read.

#include <cstddef>
#include <cstdint>

#include "core/model/quant_format.hpp"

namespace rigcast::engine::cuda {

/// A weight matrix in the GPU's memory: `rows` rows of `columns` weights. Blocks of formats whose
/// bytes GPUs cannot load 16 at a time are repacked into arrays of equal fields (soa_layout.cuh);
/// the bytes per weight stay the same.
struct DeviceMatrix {
  const std::byte* soa = nullptr;  // aligned to 256 bytes
  QuantFormat format = QuantFormat::kF32;
  std::int64_t columns = 0;  // the input's width; a multiple of the format's block
  std::int64_t rows = 0;     // the output's width

  explicit operator bool() const { return soa != nullptr; }
};

/// Quantized activations of one token, as Q8_1: x = scale * q, with scale = max |x| / 127 for every
/// 32 values. `sum16` holds sums of scale * q over 16 values: for weights of the form a * u + b,
/// they give the term b * sum. Several tokens follow one another.
struct QuantizedActivations {
  std::int8_t* q = nullptr;  // [columns], aligned to 16 bytes
  float* scale = nullptr;    // [columns / 32]
  float* sum16 = nullptr;    // [columns / 16]
};

}  // namespace rigcast::engine::cuda
