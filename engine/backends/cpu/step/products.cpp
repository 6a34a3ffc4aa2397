#include "engine/backends/cpu/step/products.hpp"

#include <algorithm>

#include "core/base/error.hpp"

namespace rigcast::engine {
namespace {

// The number of weight rows in a piece of work, when `left` bytes of all matrices remain: a
// fraction of the rest, so that pieces are long at first and all threads still end together (guided
// scheduling). For a batch: whole tiles of any instruction set. Float kernels read the whole batch
// for every piece.
std::int64_t rows_at_once(const Multiplied& m, std::int64_t left, int threads) {
  constexpr std::int64_t kMin = 64 << 10, kTile = 32, kFloatTiles = 8;
  const std::int64_t bytes = left / (2 * threads),
                     row = std::max<std::int64_t>(1, m.w->row_bytes());
  if (m.batch && needs_integers(*m.w))
    return kTile * std::max<std::int64_t>(1, bytes / row / kTile);
  if (m.batch) return kTile * std::clamp<std::int64_t>(2 * bytes / row / kTile, 2, kFloatTiles);
  return std::max<std::int64_t>(4, std::max(kMin, bytes) / row);
}

// Cuts the matrices into pieces of work, in the order in which threads claim them; the same for all
// threads. Stops after `most` pieces.
void cut(std::span<const Multiplied> matrices, int threads, std::size_t most,
         std::vector<RowPiece>& out) {
  out.clear();
  std::int64_t left = 0;
  for (const Multiplied& m : matrices) left += m.w->bytes();
  for (std::size_t i = 0; i < matrices.size(); ++i) {
    const Matrix& w = *matrices[i].w;
    for (std::int64_t first = 0; first < w.rows && out.size() < most;) {
      const std::int64_t last = std::min(w.rows, first + rows_at_once(matrices[i], left, threads));
      out.push_back({i, first, last});
      left -= (last - first) * w.row_bytes();
      first = last;
    }
  }
}

}  // namespace

bool needs_integers(const Matrix& w) { return cpu::has_int8_kernel(w.format); }

void Input::resize(std::int64_t columns, std::int64_t rows,
                   std::initializer_list<const Matrix*> matrices, RowForm form) {
  bool integers = false, floats = false;
  for (const Matrix* m : matrices) (needs_integers(*m) ? integers : floats) = true;
  resize(columns, rows, integers, floats, form);
}

void Input::resize(std::int64_t columns, std::int64_t rows, bool integers, bool floats,
                   RowForm form) {
  columns_ = columns;
  rows_ = rows;
  integers_ = integers;
  floats_ = floats;
  form_ = form;
  if (floats && floats_apart()) rows_apart_.resize(std::size_t(rows * columns));
  if (floats && !floats_apart()) batch_.resize(columns, rows);
  if (integers && !integers_apart()) quantized_.resize(columns, rows);
  if (!integers || !integers_apart()) return;
  cpu::resize_at_least(quantized_rows_, std::size_t(rows));
  for (std::size_t i = 0; i < std::size_t(rows); ++i) quantized_rows_[i].resize(columns);
}

bool Input::tiled_for(const Matrix& w) const {
  return needs_integers(w) ? !integers_apart() : !floats_apart();
}

void Input::set_floats(std::int64_t index, std::span<const float> row) {
  if (floats_apart())
    std::ranges::copy(row, floats_row(index).begin());
  else
    batch_.set_row(index, row);
}

void Input::set_row(std::int64_t index, std::span<const float> row) {
  if (floats_) set_floats(index, row);
  if (!integers_) return;
  if (integers_apart())
    cpu::quantize_row(row, quantized_rows_[std::size_t(index)]);
  else
    cpu::quantize_row(row, quantized_, index);
}

void Input::set_row(std::int64_t index, const Input& one) {
  RIGCAST_ASSERT(one.rows_ == 1 && one.form_ == RowForm::kApart);
  if (floats_) set_floats(index, one.rows_apart_);
  if (!integers_) return;
  if (integers_apart())
    quantized_rows_[std::size_t(index)] = one.quantized_rows_[0];
  else
    cpu::copy_row(one.quantized_rows_[0], quantized_, index);
}

void Input::set_rows(std::int64_t first, std::span<const float> values) {
  if (rows_at_once() == 1) return set_row(first, values);
  batch_.set_rows(first, values);
  const auto columns = std::size_t(columns_);
  for (std::size_t at = 0; integers_ && at < values.size(); at += columns)
    cpu::quantize_row(values.subspan(at, columns), quantized_, first++);
}

std::int64_t Input::rows_at_once() const {
  return floats_ && !floats_apart() ? cpu::FloatBatch::kLine : 1;
}

std::int64_t group_rows(std::initializer_list<const Matrix*> matrices) {
  const bool integers = std::ranges::all_of(matrices, [](auto* m) { return needs_integers(*m); });
  return integers ? cpu::kGroupRows : std::max(cpu::kGroupRows, cpu::FloatBatch::kGroup);
}

std::int64_t Input::rows_together() const {
  const bool tiled = integers_ ? !integers_apart() : !floats_apart();
  return tiled ? std::max(rows_at_once(), cpu::kGroupRows) : 1;
}

void Input::set_part(std::int64_t first, std::span<const float> values) {
  RIGCAST_ASSERT(rows_ == 1 && form_ == RowForm::kApart && first % kPart == 0);
  if (integers_) cpu::quantize_part(values, first, quantized_rows_[0]);
  if (floats_) std::copy(values.begin(), values.end(), rows_apart_.begin() + first);
}

// Multiplies rows [first, last) of the weights by the activations.
void multiply_rows(const Matrix& w, const InputRows& x, std::int64_t first, std::int64_t last,
                   float* y, std::int64_t stride, ProductScratch& scratch) {
  const cpu::Int8Kernels& integer = cpu::int8_kernels();
  const Input& in = *x.input;
  const bool integers = needs_integers(w);
  if (in.tiled_for(w)) {
    if (integers)
      return integer.multiply_batch(w, first, last, {in.quantized_, x.first, x.count}, y, stride,
                                    scratch.tiles);
    return cpu::multiply_batch_f32(w, first, last, {in.batch_, x.first, x.count}, y, stride,
                                   scratch.floats);
  }
  if (!integers)
    return cpu::multiply_few_f32(w, first, last, in.rows_apart_.data() + x.first * in.columns_,
                                 x.count, y, stride);
  const cpu::QuantizedRow* const rows = in.quantized_rows_.data() + x.first;
  if (x.count == 1) return integer.multiply_row(w, first, last, *rows, y + first);
  integer.multiply_few(w, first, last, rows, x.count, y, stride);
}

// As far as the member's own cache holds it.
void prefetch_first(Worker& worker, std::span<const Matrix* const> matrices,
                    ProductScratch& scratch) {
  const auto own = std::size_t(worker.index());
  scratch.matrices.clear();
  for (const Matrix* const w : matrices) scratch.matrices.push_back({w, false});
  cut(scratch.matrices, worker.count(), own + 1, scratch.pieces);
  if (scratch.pieces.size() <= own) return worker.prefetch({});
  const auto& [matrix, first, last] = scratch.pieces[own];
  const std::int64_t bytes = (last - first) * matrices[matrix]->row_bytes();
  worker.prefetch(
      {matrices[matrix]->row(first), std::size_t(std::min(bytes, Prefetcher::kMaxBytes))});
}

// The first piece of every member is fixed, because it may have been prefetched; the others are
// claimed.
void multiply(Worker& worker, std::span<const Product> products, ProductScratch& scratch,
              std::span<const Matrix* const> next) {
  scratch.matrices.clear();
  for (const Product& p : products) scratch.matrices.push_back({p.w, p.x.input->tiled_for(*p.w)});
  cut(scratch.matrices, worker.count(), std::size_t(-1), scratch.pieces);
  const auto compute = [&](std::size_t piece) {
    const auto& [matrix, first, last] = scratch.pieces[piece];
    const Product& p = products[matrix];
    multiply_rows(*p.w, p.x, first, last, p.y, p.stride, scratch);
  };
  const std::size_t all = scratch.pieces.size(), own = std::size_t(worker.index()),
                    firsts = std::min(all, std::size_t(worker.count()));
  if (own < firsts) compute(own);
  worker.parallel_for_nowait(std::int64_t(all - firsts), 1, [&](std::int64_t piece, std::int64_t) {
    compute(firsts + std::size_t(piece));
  });
  prefetch_first(worker, next, scratch);
}

}  // namespace rigcast::engine
