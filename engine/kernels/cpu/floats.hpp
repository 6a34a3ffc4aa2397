#pragma once
// Weights that are multiplied in F32: F32, F16 and BF16, and any quantized format that has no
// integer kernel, by the reference decoder. SIMD through Highway, chosen at run time.

#include <cstdint>
#include <span>

#include "engine/kernels/cpu/aligned.hpp"
#include "engine/model/matrix.hpp"

namespace rigcast::engine::cpu {

/// y[i] = w[first + i] * x for rows [first, last); x has w.columns elements.
void multiply_row_f32(const Matrix& w, std::int64_t first, std::int64_t last, const float* x,
                      float* y);

/// Activations of a batch for F32 tiles, interleaved in groups of 8 rows: element k of rows 0 to 7,
/// element k + 1, ... What rows past the last hold does not matter.
struct FloatBatch {
  std::int64_t columns = 0;
  std::int64_t rows = 0;
  AlignedVector<float> x;  // [group][column][8 rows]

  void resize(std::int64_t columns_, std::int64_t rows_);
  void set_row(std::int64_t index, std::span<const float> row);
  std::int64_t groups() const { return (rows + 7) / 8; }
};

/// What one thread needs; grows to what is asked of it.
struct FloatScratch {
  AlignedVector<float> row;      // a row of weights
  AlignedVector<float> weights;  // [column][lanes], a chunk of columns
  AlignedVector<float> sums;     // [group][8 rows][lanes]
};

/// y[t * stride + i] = w[i] * x[t] for i in [first, last) and every row t of the batch.
void multiply_batch_f32(const Matrix& w, std::int64_t first, std::int64_t last, const FloatBatch& x,
                        float* y, std::int64_t stride, FloatScratch& scratch);

}  // namespace rigcast::engine::cpu
