#pragma once
// Products with float weights (F32, F16, BF16), in F32 without rounding. SIMD by Highway, chosen at
// run time.

#include <cstdint>
#include <span>

#include "engine/kernels/cpu/aligned.hpp"
#include "engine/model/matrix.hpp"

namespace rigcast::engine::cpu {

/// y[i] = w[first + i] * x for rows [first, last); x has w.columns elements.
void multiply_row_f32(const Matrix& w, std::int64_t first, std::int64_t last, const float* x,
                      float* y);

/// y[t * stride + i] = w[i] * x[t] for i in [first, last) and `count` rows of activations, which
/// are w.columns elements each, one behind the other: for a few rows, to the bit as
/// multiply_row_f32() for each.
void multiply_few_f32(const Matrix& w, std::int64_t first, std::int64_t last, const float* x,
                      std::int64_t count, float* y, std::int64_t stride);

/// The activations of a batch, interleaved in groups of 32 tokens: column k of all 32, column k +
/// 1, ... All groups of a chunk of columns are contiguous: with whole rows between them they would
/// map to few sets of a cache. Values beyond the last token are unspecified.
struct FloatBatch {
  static constexpr std::int64_t kChunk = 256, kGroup = 32;
  static constexpr std::int64_t kLine = 16;  // rows whose values share cache lines

  std::int64_t columns = 0;
  std::int64_t rows = 0;
  AlignedVector<float> x;  // [chunk of columns][group][column][token]

  /// Allocates if the buffer is too small; it never shrinks.
  void resize(std::int64_t columns_, std::int64_t rows_);
  void set_row(std::int64_t index, std::span<const float> row);
  /// Sets kLine rows, or those up to the last, from a multiple of kLine on: several times as fast
  /// as one by one. `values` are [row][column].
  void set_rows(std::int64_t first, std::span<const float> values);
  std::int64_t groups() const { return (rows + kGroup - 1) / kGroup; }
  /// The number of columns of the chunk that begins at column `begin`.
  std::int64_t chunk_columns(std::int64_t begin) const {
    return columns - begin < kChunk ? columns - begin : kChunk;
  }
  /// The index at which a group's part of that chunk begins.
  std::int64_t at(std::int64_t begin, std::int64_t group) const {
    return (begin * groups() + group * chunk_columns(begin)) * kGroup;
  }
};

/// Rows of a batch, beginning at a multiple of kGroup.
struct FloatRows {
  const FloatBatch* batch;
  std::int64_t first, rows;

  FloatRows(const FloatBatch& b) : FloatRows(b, 0, b.rows) {}
  FloatRows(const FloatBatch& b, std::int64_t first_, std::int64_t rows_)
      : batch(&b), first(first_), rows(rows_) {}
  std::int64_t groups() const { return (rows + FloatBatch::kGroup - 1) / FloatBatch::kGroup; }
  /// The number of tokens in a group.
  std::int64_t tokens(std::int64_t group) const {
    const std::int64_t left = rows - group * FloatBatch::kGroup;
    return left < FloatBatch::kGroup ? left : FloatBatch::kGroup;
  }
  /// The columns of a group from `begin` on, as many as the batch's chunk has.
  const float* columns(std::int64_t begin, std::int64_t group) const {
    return batch->x.data() + batch->at(begin, first / FloatBatch::kGroup + group);
  }
};

/// The work buffers of one thread, which grow as needed.
struct FloatScratch {
  AlignedVector<float> weights;  // [row][column], a chunk of columns
  AlignedVector<float> sums;     // [group][row][token]
};

/// y[t * stride + i] = w[i] * x[t] for i in [first, last) and every row t of x.
void multiply_batch_f32(const Matrix& w, std::int64_t first, std::int64_t last, const FloatRows& x,
                        float* y, std::int64_t stride, FloatScratch& scratch);

}  // namespace rigcast::engine::cpu
