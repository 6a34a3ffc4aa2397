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

/// A matrix, and whether it is multiplied by a batch or by one row of activations.
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
  /// Resizes for `rows` rows of `columns`, in the forms that the matrices need. Memory grows as
  /// needed and is kept.
  void resize(std::int64_t columns, std::int64_t rows,
              std::initializer_list<const Matrix*> matrices);
  /// Allocates the forms that are named, whatever the matrices need.
  void resize(std::int64_t columns, std::int64_t rows, bool integers, bool floats);
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

 private:
  friend void multiply_rows(const Matrix&, const InputRows&, std::int64_t, std::int64_t, float*,
                            std::int64_t, ProductScratch&);

  std::int64_t columns_ = 0, rows_ = 0;
  bool integers_ = false, floats_ = false;
  std::vector<float> row_;  // a single row in F32
  cpu::QuantizedRow quantized_row_;
  cpu::QuantizedBatch quantized_;
  cpu::FloatBatch batch_;
};

/// The alignment of row ranges: rows of an input for these matrices that are multiplied separately
/// begin at a multiple of it.
std::int64_t group_rows(std::initializer_list<const Matrix*> matrices);

/// The only row of an input; or rows [first, first + count) of several, where `first` is a multiple
/// of group_rows().
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

}  // namespace rigcast::engine
