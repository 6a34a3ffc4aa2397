#pragma once
// Activations of a batch: rows of values of one type in the GPU's memory.

#include <cstddef>
#include <cstdint>

namespace rigcast::engine::cuda {

enum class ValueType : std::uint8_t { kF32, kF16, kBF16 };

constexpr std::size_t bytes_of(ValueType type) { return type == ValueType::kF32 ? 4 : 2; }

/// Row t begins at data + t * stride values.
struct Rows {
  void* data = nullptr;
  ValueType type = ValueType::kF32;
  std::int64_t stride = 0;

  explicit operator bool() const { return data != nullptr; }
};

/// As Rows, read-only.
struct ConstRows {
  const void* data = nullptr;
  ValueType type = ValueType::kF32;
  std::int64_t stride = 0;

  ConstRows() = default;
  ConstRows(const void* data_, ValueType type_, std::int64_t stride_)
      : data(data_), type(type_), stride(stride_) {}
  ConstRows(const Rows& rows) : data(rows.data), type(rows.type), stride(rows.stride) {}

  explicit operator bool() const { return data != nullptr; }
};

}  // namespace rigcast::engine::cuda
