#pragma once
// Activations quantized to 8-bit integers (as Q8_1), the form in which quantized weights are
// multiplied.

#include <cstddef>
#include <cstdint>
#include <span>

#include "engine/kernels/cpu/aligned.hpp"

namespace rigcast::engine::cpu {

/// Weights and activations are multiplied as integers in blocks of this many.
inline constexpr std::int64_t kQuantizedBlock = 32;
/// Rows of a batch in one tile.
inline constexpr std::int64_t kGroupRows = 8;

/// One row as int8: x = scale * q, with scale = max |x| / 127 for each block of 32. `sum32` and
/// `sum16` hold sums of scale * q: for weights of the form a * u + b, they give the term b * sum.
struct QuantizedRow {
  AlignedVector<std::int8_t> q;  // [columns]
  AlignedVector<float> scale;    // [columns / 32]
  AlignedVector<float> sum32;    // [columns / 32]
  AlignedVector<float> sum16;    // [columns / 16]: some formats' b changes there
  // The same values in the order in which AVX-512 kernels read K blocks, so that rows of weights
  // need no reordering. Eight blocks of 32 values, 0 to 7, share bytes in pairs: first the first
  // halves of blocks 0, 2, 4 and 6, then their second halves, then both halves of 1, 3, 5 and 7.
  // k_scale: scales of 0 to 3, their sums, then scales and sums of 4 to 7. Empty if the width is no
  // multiple of 256.
  AlignedVector<std::int8_t> k_q;  // [columns]
  AlignedVector<float> k_scale;    // [columns / 16]
  AlignedVector<float> scale16;    // [columns / 16]: `scale`, each twice

  void resize(std::int64_t columns);
};

/// Quantizes a row. `row.size()` must be a multiple of 32 and no more than `out` was sized for. NaN
/// becomes 0.
void quantize_row(std::span<const float> row, QuantizedRow& out);
/// Quantizes columns [first, first + part.size()): multiples of 256, except at the row's end.
/// Several threads may quantize parts of one row.
void quantize_part(std::span<const float> part, std::int64_t first, QuantizedRow& out);

/// Many quantized rows, interleaved for tiles in groups of 8 rows: four neighbouring q of row 0,
/// four of row 1, ... Values of rows past the last are unspecified.
struct QuantizedBatch {
  std::int64_t columns = 0;
  std::int64_t rows = 0;
  AlignedVector<std::int8_t> q;  // [group][column / 4][8 rows][4]
  AlignedVector<float> scale;    // [group][column / 32][8 rows]
  AlignedVector<float> sum32;    // [group][column / 32][8 rows]
  AlignedVector<float> sum16;    // [group][column / 16][8 rows]

  /// Allocates if the buffers are too small; they never shrink.
  void resize(std::int64_t columns_, std::int64_t rows_);
};

/// Rows of a batch, beginning at a multiple of kGroupRows.
struct QuantizedRows {
  const std::int8_t* q;
  const float *scale, *sum32, *sum16;
  std::int64_t columns, rows;

  QuantizedRows(const QuantizedBatch& batch) : QuantizedRows(batch, 0, batch.rows) {}
  QuantizedRows(const QuantizedBatch& batch, std::int64_t first, std::int64_t rows);
  std::int64_t groups() const { return (rows + kGroupRows - 1) / kGroupRows; }
};

/// Writes row `index` of the batch.
void quantize_row(std::span<const float> row, QuantizedBatch& out, std::int64_t index);
/// Copies a row that was quantized by itself: the values are the same.
void copy_row(const QuantizedRow& row, QuantizedBatch& out, std::int64_t index);

}  // namespace rigcast::engine::cpu
