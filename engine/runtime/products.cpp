#include "engine/runtime/products.hpp"

#include <algorithm>

#include "core/error.hpp"

namespace rigcast::engine {
namespace {

// Rows of weights that a thread takes at once. For one row of activations: enough bytes to stream,
// few enough to share evenly. For a batch: whole tiles of any instruction set.
std::int64_t rows_at_once(const Product& p) {
  constexpr std::int64_t kBytes = 128 << 10, kTile = 32;
  if (p.x->rows() > 1) return kTile;
  return std::clamp<std::int64_t>(kBytes / std::max<std::int64_t>(1, p.w->row_bytes()), 4, 4096);
}

std::int64_t pieces(const Product& p) {
  const std::int64_t at_once = rows_at_once(p);
  return (p.w->rows + at_once - 1) / at_once;
}

}  // namespace

bool needs_integers(const Matrix& w) { return cpu::has_int8_kernel(w.format); }

void Input::resize(std::int64_t columns, std::int64_t rows, bool integers, bool floats) {
  columns_ = columns;
  rows_ = rows;
  integers_ = integers;
  floats_ = floats;
  if (rows == 1) {
    if (integers) rounded_row_.resize(columns);
    if (floats) row_.resize(std::size_t(columns));
  } else {
    if (integers) rounded_.resize(columns, rows);
    if (floats) batch_.resize(columns, rows);
  }
}

void Input::set_row(std::int64_t index, std::span<const float> row) {
  if (rows_ == 1) {
    if (integers_) cpu::round_row(row, rounded_row_);
    if (floats_) std::copy(row.begin(), row.end(), row_.begin());
  } else {
    if (integers_) cpu::round_row(row, rounded_, index);
    if (floats_) batch_.set_row(index, row);
  }
}

// Rows [first, last) of the weights.
void multiply_rows(const Matrix& w, const Input& x, std::int64_t first, std::int64_t last, float* y,
                   std::int64_t stride, ProductScratch& scratch) {
  const cpu::Int8Kernels& integer = cpu::int8_kernels();
  if (needs_integers(w)) {
    if (x.rows_ == 1) return integer.multiply_row(w, first, last, x.rounded_row_, y + first);
    return integer.multiply_batch(w, first, last, x.rounded_, y, stride, scratch.tiles);
  }
  if (x.rows_ == 1) return cpu::multiply_row_f32(w, first, last, x.row_.data(), y + first);
  cpu::multiply_batch_f32(w, first, last, x.batch_, y, stride, scratch.floats);
}

void multiply(Worker& worker, std::span<const Product> products, ProductScratch& scratch) {
  std::int64_t all = 0;
  for (const Product& p : products) all += pieces(p);
  worker.share(all, 1, [&](std::int64_t piece, std::int64_t) {
    for (const Product& p : products) {
      const std::int64_t own = pieces(p);
      if (piece >= own) {
        piece -= own;
        continue;
      }
      const std::int64_t first = piece * rows_at_once(p);
      const std::int64_t last = std::min(p.w->rows, first + rows_at_once(p));
      return multiply_rows(*p.w, *p.x, first, last, p.y, p.stride, scratch);
    }
  });
}

}  // namespace rigcast::engine
