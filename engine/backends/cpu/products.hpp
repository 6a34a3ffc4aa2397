#pragma once
// Matrices times activations on a team of threads, whatever the weights' format.

#include <cstdint>
#include <initializer_list>
#include <span>
#include <vector>

#include "engine/kernels/cpu/floats.hpp"
#include "engine/kernels/cpu/int8.hpp"
#include "engine/kernels/cpu/rounded.hpp"
#include "engine/model/matrix.hpp"
#include "engine/threads/team.hpp"

namespace rigcast::engine {

/// A matrix, and whether it is by a batch or by one row of activations.
struct Multiplied {
  const Matrix* w = nullptr;
  bool batch = false;
};

/// Rows [first, last) of one of several matrices.
struct RowPiece {
  std::size_t matrix = 0;
  std::int64_t first = 0, last = 0;
};

/// What one thread needs for products.
struct ProductScratch {
  std::vector<Multiplied> matrices;
  std::vector<RowPiece> pieces;
  cpu::TileScratch tiles;
  cpu::FloatScratch floats;
};

struct InputRows;

/// Rows of activations in the forms that weights are multiplied with: integers for formats with an
/// integer kernel, F32 for the others.
class Input {
 public:
  /// For `rows` rows of `columns`, and the formats of the matrices that will be multiplied. Takes
  /// memory where there is less, and keeps it.
  void resize(std::int64_t columns, std::int64_t rows, bool integers, bool floats);
  /// Rows may be set at the same time by several threads, each once.
  void set_row(std::int64_t index, std::span<const float> row);
  /// The only row of `one`, which has the same columns and forms.
  void set_row(std::int64_t index, const Input& one);
  /// As many rows as `values` hold, [row][column]: rows_at_once(), or those up to the last, from a
  /// multiple of it on.
  void set_rows(std::int64_t first, std::span<const float> values);
  std::int64_t rows_at_once() const;
  /// Rows that share cache lines: threads set them by as many, a multiple of rows_at_once().
  std::int64_t rows_together() const;
  /// Of the only row: columns from `first` on, a multiple of kPart, as many as `values` or to the
  /// end. Parts may be set at the same time by several threads.
  void set_part(std::int64_t first, std::span<const float> values);
  static constexpr std::int64_t kPart = 256;

  std::int64_t rows() const { return rows_; }
  std::int64_t columns() const { return columns_; }

 private:
  friend void multiply_rows(const Matrix&, const InputRows&, std::int64_t, std::int64_t, float*,
                            std::int64_t, ProductScratch&);

  std::int64_t columns_ = 0, rows_ = 0;
  bool integers_ = false, floats_ = false;
  std::vector<float> row_;  // one row alone, F32
  cpu::RoundedRow rounded_row_;
  cpu::RoundedBatch rounded_;
  cpu::FloatBatch batch_;
};

/// What rows of an input for these matrices begin at a multiple of, where some are multiplied by
/// themselves.
std::int64_t group_rows(std::initializer_list<const Matrix*> matrices);

/// An input's only row; or rows [first, first + count) of several, from a multiple of group_rows()
/// on.
struct InputRows {
  const Input* input;
  std::int64_t first, count;

  InputRows(const Input& all) : InputRows(all, 0, all.rows()) {}
  InputRows(const Input& of, std::int64_t first_, std::int64_t count_)
      : input(&of), first(first_), count(count_) {}
};

/// y[t * stride + i] = w[i] * row t of x.
struct Product {
  const Matrix* w = nullptr;
  InputRows x;
  float* y = nullptr;
  std::int64_t stride = 0;
};

/// Which forms of activations these matrices need.
bool needs_integers(const Matrix& w);

/// All members of the team compute all products together, without a barrier at the end: what comes
/// next begins with one. `next` are the matrices that one row of activations is multiplied with
/// after these: while members wait, memory is asked for what they take first.
void multiply(Worker& worker, std::span<const Product> products, ProductScratch& scratch,
              std::span<const Matrix* const> next = {});

}  // namespace rigcast::engine
