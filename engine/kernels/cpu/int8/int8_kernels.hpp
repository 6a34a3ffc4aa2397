#pragma once
// The kernels of one instruction set, as a table of functions, and their work buffers.

#include <cstdint>

#include "engine/kernels/cpu/aligned.hpp"
#include "engine/kernels/cpu/quantized_activations.hpp"
#include "engine/model/matrix.hpp"

namespace rigcast::engine::cpu {

/// The work buffers of one thread for a batch, which grow as needed.
struct TileScratch {
  AlignedVector<std::uint8_t> weights;  // [column / 4][lanes][4], a chunk of columns
  AlignedVector<float> a, b;            // [scale block][lanes]
  AlignedVector<float> sums;            // [group][8 rows][lanes]
};

struct Int8Kernels {
  const char* name;
  /// y[i] = sum over columns of w[first + i] * x, for rows [first, last).
  void (*multiply_row)(const Matrix& w, std::int64_t first, std::int64_t last,
                       const QuantizedRow& x, float* y);
  /// y[t * stride + i] = w[i] * x[t] for i in [first, last) and t below `count`: for a few rows, to
  /// the bit as multiply_row() for each.
  void (*multiply_few)(const Matrix& w, std::int64_t first, std::int64_t last,
                       const QuantizedRow* x, std::int64_t count, float* y, std::int64_t stride);
  /// y[t * stride + i] = w[i] * x[t] for i in [first, last) and every row t of the batch.
  void (*multiply_batch)(const Matrix& w, std::int64_t first, std::int64_t last,
                         const QuantizedRows& x, float* y, std::int64_t stride,
                         TileScratch& scratch);
};

}  // namespace rigcast::engine::cpu
