#pragma once
// Matrix products with activations on a team of threads, for every weight format.

#include <cstdint>
#include <initializer_list>
#include <span>
#include <vector>

#include "engine/kernels/cpu/floats.hpp"
#include "engine/kernels/cpu/int8/int8.hpp"
#include "engine/kernels/cpu/quantized_activations.hpp"
#include "engine/model/matrix.hpp"
#include "engine/threads/thread_team.hpp"

namespace rigcast::engine {

/// How rows of activations lie in memory, and which kernels multiply them: a few rows one by one,
/// to the bit as if each were the only one; many in tiles, where weights are unpacked once for all.
/// Integers are worth a tile sooner than floats. In any form no bit of a row's products depends on
/// other rows.
enum class RowForm { kApart, kIntegersTiled, kTiled };
/// Beyond this many rows, tiles of integers are faster, and of floats.
inline constexpr std::int64_t kMaxIntegersApart = 5, kMaxRowsApart = 8;
inline RowForm form_of(std::int64_t rows) {
  if (rows <= kMaxIntegersApart) return RowForm::kApart;
  return rows <= kMaxRowsApart ? RowForm::kIntegersTiled : RowForm::kTiled;
}

/// A matrix, and whether it is multiplied by tiles or by rows apart.
struct Multiplied {
  const Matrix* w = nullptr;
  bool batch = false;
};

/// Rows [first, last) of one of several matrices.
struct RowPiece {
  std::size_t matrix = 0;
  std::int64_t first = 0, last = 0;
};

/// The work buffers of one thread.
struct ProductScratch {
  std::vector<Multiplied> matrices;
  std::vector<RowPiece> pieces;
  cpu::TileScratch tiles;
  cpu::FloatScratch floats;
};

struct InputRows;

/// Rows of activations, in the forms by which weights are multiplied: 8-bit integers for formats
/// with an integer kernel, F32 for the others.
class Input {
 public:
  /// Resizes for `rows` rows of `columns`, as integers or floats as the matrices need. Memory grows
  /// as needed and is kept.
  void resize(std::int64_t columns, std::int64_t rows,
              std::initializer_list<const Matrix*> matrices, RowForm form);
  void resize(std::int64_t columns, std::int64_t rows,
              std::initializer_list<const Matrix*> matrices) {
    resize(columns, rows, matrices, form_of(rows));
  }
  /// Allocates integers and floats as named, whatever the matrices need.
  void resize(std::int64_t columns, std::int64_t rows, bool integers, bool floats, RowForm form);
  void resize(std::int64_t columns, std::int64_t rows, bool integers, bool floats) {
    resize(columns, rows, integers, floats, form_of(rows));
  }
  /// Sets one row. Several threads may set different rows at the same time.
  void set_row(std::int64_t index, std::span<const float> row);
  /// Copies the only row of `one`, which has the same columns and forms.
  void set_row(std::int64_t index, const Input& one);
  /// Sets the rows in `values`, [row][column]: rows_at_once() of them, or those up to the last row.
  /// `first` is a multiple of rows_at_once().
  void set_rows(std::int64_t first, std::span<const float> values);
  std::int64_t rows_at_once() const;
  /// The number of rows that share cache lines, a multiple of rows_at_once(): a thread sets that
  /// many.
  std::int64_t rows_together() const;
  /// Sets columns of the only row: as many as in `values`, from `first` on, which is a multiple of
  /// kPart. Several threads may set different parts at the same time.
  void set_part(std::int64_t first, std::span<const float> values);
  static constexpr std::int64_t kPart = 256;

  std::int64_t rows() const { return rows_; }
  std::int64_t columns() const { return columns_; }
  /// True if rows are multiplied by this matrix in tiles.
  bool tiled_for(const Matrix& w) const;

 private:
  friend void multiply_rows(const Matrix&, const InputRows&, std::int64_t, std::int64_t, float*,
                            std::int64_t, ProductScratch&);

  bool integers_apart() const { return form_ == RowForm::kApart; }
  bool floats_apart() const { return form_ != RowForm::kTiled; }
  void set_floats(std::int64_t index, std::span<const float> row);
  std::span<float> floats_row(std::int64_t index) {
    return {rows_apart_.data() + index * columns_, std::size_t(columns_)};
  }

  std::int64_t columns_ = 0, rows_ = 0;
  RowForm form_ = RowForm::kApart;
  bool integers_ = false, floats_ = false;
  std::vector<float> rows_apart_;  // [row][column]
  std::vector<cpu::QuantizedRow> quantized_rows_;
  cpu::QuantizedBatch quantized_;
  cpu::FloatBatch batch_;
};

/// The alignment of row ranges: rows of a tiled input for these matrices that are multiplied
/// separately begin at a multiple of it.
std::int64_t group_rows(std::initializer_list<const Matrix*> matrices);

/// Rows [first, first + count) of an input; of a tiled one, `first` is a multiple of group_rows().
struct InputRows {
  const Input* input;
  std::int64_t first, count;

  InputRows(const Input& all) : InputRows(all, 0, all.rows()) {}
  InputRows(const Input& of, std::int64_t first_, std::int64_t count_)
      : input(&of), first(first_), count(count_) {}
};

/// A product: y[t * stride + i] = dot(row i of w, row t of x).
struct Product {
  const Matrix* w = nullptr;
  InputRows x;
  float* y = nullptr;
  std::int64_t stride = 0;
};

/// True if this matrix is multiplied by activations as integers.
bool needs_integers(const Matrix& w);

/// Computes all products on the whole team, without a barrier at the end: the next stage must begin
/// with one. `next` are the matrices that one row of activations is multiplied by after these:
/// members prefetch their first pieces of them while they wait.
void multiply(Worker& worker, std::span<const Product> products, ProductScratch& scratch,
              std::span<const Matrix* const> next = {});

/// This member's first piece of the products of one row with these matrices is prefetched wherever
/// it waits from now on.
void prefetch_first(Worker& worker, std::span<const Matrix* const> matrices,
                    ProductScratch& scratch);

}  // namespace rigcast::engine
