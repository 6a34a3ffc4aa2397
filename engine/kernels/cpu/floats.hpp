#pragma once
// Weights that are multiplied in F32, none of them rounded: F32, F16 and BF16. SIMD through
// Highway, chosen at run time.

#include <cstdint>
#include <span>

#include "engine/kernels/cpu/aligned.hpp"
#include "engine/model/matrix.hpp"

namespace rigcast::engine::cpu {

/// y[i] = w[first + i] * x for rows [first, last); x has w.columns elements.
void multiply_row_f32(const Matrix& w, std::int64_t first, std::int64_t last, const float* x,
                      float* y);

/// Activations of a batch in groups of 32 tokens, side by side: column k of all 32, column k + 1,
/// ... All groups of a chunk of columns lie together: apart by whole rows they would share few
/// places of a cache. What lies beyond the last token does not matter.
struct FloatBatch {
  static constexpr std::int64_t kChunk = 256, kGroup = 32;
  static constexpr std::int64_t kLine = 16;  // rows that share cache lines

  std::int64_t columns = 0;
  std::int64_t rows = 0;
  AlignedVector<float> x;  // [chunk of columns][group][column][token]

  /// Takes memory where there is less, and keeps it.
  void resize(std::int64_t columns_, std::int64_t rows_);
  void set_row(std::int64_t index, std::span<const float> row);
  /// kLine rows, or those up to the last, from a multiple of kLine on: several times as fast as one
  /// by one. `values` are [row][column].
  void set_rows(std::int64_t first, std::span<const float> values);
  std::int64_t groups() const { return (rows + kGroup - 1) / kGroup; }
  /// Of the chunk that begins at column `begin`.
  std::int64_t chunk_columns(std::int64_t begin) const {
    return columns - begin < kChunk ? columns - begin : kChunk;
  }
  /// Where a group's part of that chunk begins.
  std::int64_t at(std::int64_t begin, std::int64_t group) const {
    return (begin * groups() + group * chunk_columns(begin)) * kGroup;
  }
};

/// Rows of a batch, from a multiple of kGroup on.
struct FloatRows {
  const FloatBatch* batch;
  std::int64_t first, rows;

  FloatRows(const FloatBatch& b) : FloatRows(b, 0, b.rows) {}
  FloatRows(const FloatBatch& b, std::int64_t first_, std::int64_t rows_)
      : batch(&b), first(first_), rows(rows_) {}
  std::int64_t groups() const { return (rows + FloatBatch::kGroup - 1) / FloatBatch::kGroup; }
  /// Of a group.
  std::int64_t tokens(std::int64_t group) const {
    const std::int64_t left = rows - group * FloatBatch::kGroup;
    return left < FloatBatch::kGroup ? left : FloatBatch::kGroup;
  }
  /// Columns of a group from `begin` on, as many as the batch's chunk.
  const float* columns(std::int64_t begin, std::int64_t group) const {
    return batch->x.data() + batch->at(begin, first / FloatBatch::kGroup + group);
  }
};

/// What one thread needs; grows to what is asked of it.
struct FloatScratch {
  AlignedVector<float> weights;  // [row][column], a chunk of columns
  AlignedVector<float> sums;     // [group][row][token]
};

/// y[t * stride + i] = w[i] * x[t] for i in [first, last) and every row t of x.
void multiply_batch_f32(const Matrix& w, std::int64_t first, std::int64_t last, const FloatRows& x,
                        float* y, std::int64_t stride, FloatScratch& scratch);

}  // namespace rigcast::engine::cpu
