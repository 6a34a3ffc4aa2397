#pragma once
// Views of weights in memory, in a file's layout; they never own or copy data.

#include <cstddef>
#include <cstdint>

#include "core/model/quant_format.hpp"

namespace rigcast::engine {

/// A matrix of `rows` contiguous rows of `columns` weights, each in whole blocks of `format`. Rows
/// need not be aligned. The view's creator keeps the bytes alive.
struct Matrix {
  const std::byte* data = nullptr;
  QuantFormat format = QuantFormat::kF32;
  std::int64_t columns = 0;  // the input's width; a multiple of the format's block
  std::int64_t rows = 0;     // the output's width

  explicit operator bool() const { return data != nullptr; }
  std::int64_t row_bytes() const {
    const QuantFormatInfo& f = info(format);
    return columns / f.block_elements * f.block_bytes;
  }
  std::int64_t bytes() const { return rows * row_bytes(); }
  const std::byte* row(std::int64_t i) const { return data + i * row_bytes(); }
};

/// Matrices of equal shape, at equal distances: a layer's experts.
struct MatrixStack {
  Matrix first;
  int count = 0;
  std::int64_t stride = 0;  // bytes from one to the next; 0: they are contiguous

  explicit operator bool() const { return bool(first); }
  Matrix at(int i) const {
    Matrix m = first;
    m.data += i * (stride > 0 ? stride : first.bytes());
    return m;
  }
};

}  // namespace rigcast::engine
