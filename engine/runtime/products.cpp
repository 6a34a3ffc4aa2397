#include "engine/runtime/products.hpp"

#include <algorithm>

#include "core/error.hpp"

namespace rigcast::engine {
namespace {

// Rows of weights that a thread takes at once when `left` bytes of all products are still to be
// taken. For one row of activations: a part of what is left, so that long stretches of memory are
// read in one go and all threads end together all the same. For a batch: whole tiles of any
// instruction set.
std::int64_t rows_at_once(const Product& p, std::int64_t left, int threads) {
  constexpr std::int64_t kLeast = 64 << 10, kTile = 32;
  if (p.x->rows() > 1) return kTile;
  const std::int64_t bytes = std::max(kLeast, left / (2 * threads));
  return std::max<std::int64_t>(4, bytes / std::max<std::int64_t>(1, p.w->row_bytes()));
}

// What threads take, in order: the same for all of them.
void cut(std::span<const Product> products, int threads, std::vector<ProductPiece>& out) {
  out.clear();
  std::int64_t left = 0;
  for (const Product& p : products) left += p.w->bytes();
  for (const Product& p : products)
    for (std::int64_t first = 0; first < p.w->rows;) {
      const std::int64_t last = std::min(p.w->rows, first + rows_at_once(p, left, threads));
      out.push_back({&p, first, last});
      left -= (last - first) * p.w->row_bytes();
      first = last;
    }
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
  cut(products, worker.count(), scratch.pieces);
  worker.share(std::int64_t(scratch.pieces.size()), 1, [&](std::int64_t piece, std::int64_t) {
    const auto& [p, first, last] = scratch.pieces[std::size_t(piece)];
    multiply_rows(*p->w, *p->x, first, last, p->y, p->stride, scratch);
  });
}

}  // namespace rigcast::engine
