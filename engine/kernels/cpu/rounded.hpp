#pragma once
// Activations rounded to 8-bit integers, the form that quantized weights are multiplied with.

#include <cstddef>
#include <cstdint>
#include <span>

#include "engine/kernels/cpu/aligned.hpp"

namespace rigcast::engine::cpu {

/// Weights and activations are multiplied as integers in blocks of this many.
inline constexpr std::int64_t kRoundedBlock = 32;
/// Rows of a batch that tiles multiply with at once.
inline constexpr std::int64_t kGroupRows = 8;

/// One row of F32 as int8: x = scale * q, each block of 32 by its own scale = max |x| / 127.
/// Sums are those of scale * q: weights of the form a * u + b cost one more product, b * sum.
struct RoundedRow {
  AlignedVector<std::int8_t> q;  // [columns]
  AlignedVector<float> scale;    // [columns / 32]
  AlignedVector<float> sum32;    // [columns / 32]
  AlignedVector<float> sum16;    // [columns / 16]: some formats' b changes there
  // The same as wide vectors take K blocks, so that they need not be turned for every row. Of eight
  // 32s, 0 to 7, whose nibbles share bytes two by two: first halves of 0, 2, 4, 6, second halves of
  // them, both of 1, 3, 5, 7; scales of 0 to 3, their sums, scales and sums of 4 to 7. Empty where
  // the row is not whole 256s.
  AlignedVector<std::int8_t> k_q;  // [columns]
  AlignedVector<float> k_scale;    // [columns / 16]
  AlignedVector<float> scale16;    // [columns / 16]: `scale`, each twice

  void resize(std::int64_t columns);
};

/// `row.size()` must be a multiple of 32 and no more than `out` was sized for. NaN becomes 0.
void round_row(std::span<const float> row, RoundedRow& out);
/// The same of a part: columns from `first` on, as many as `part`: whole 256s, but for what is left
/// at the row's end. Several threads may round parts of one row.
void round_part(std::span<const float> part, std::int64_t first, RoundedRow& out);

/// The same for many rows, interleaved for tiles in groups of 8 rows: four neighbouring q of row 0,
/// four of row 1, ... What rows past the last hold does not matter.
struct RoundedBatch {
  std::int64_t columns = 0;
  std::int64_t rows = 0;
  AlignedVector<std::int8_t> q;  // [group][column / 4][8 rows][4]
  AlignedVector<float> scale;    // [group][column / 32][8 rows]
  AlignedVector<float> sum32;    // [group][column / 32][8 rows]
  AlignedVector<float> sum16;    // [group][column / 16][8 rows]

  /// Takes memory where there is less, and keeps it.
  void resize(std::int64_t columns_, std::int64_t rows_);
};

/// Rows of a batch, from a multiple of kGroupRows on.
struct RoundedRows {
  const std::int8_t* q;
  const float *scale, *sum32, *sum16;
  std::int64_t columns, rows;

  RoundedRows(const RoundedBatch& batch) : RoundedRows(batch, 0, batch.rows) {}
  RoundedRows(const RoundedBatch& batch, std::int64_t first, std::int64_t rows);
  std::int64_t groups() const { return (rows + kGroupRows - 1) / kGroupRows; }
};

/// Writes row `index` of the batch.
void round_row(std::span<const float> row, RoundedBatch& out, std::int64_t index);
/// The same of a row that was rounded alone: to the same values.
void copy_row(const RoundedRow& row, RoundedBatch& out, std::int64_t index);

}  // namespace rigcast::engine::cpu
