#pragma once
// The header of a GGUF file to be written: metadata and tensors.

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "core/model/quant_format.hpp"
#include "engine/gguf/value.hpp"

namespace rigcast::engine {

namespace detail {

/// Types of metadata: numbers, bool, text, and vectors of these and of vectors.
template <class T>
struct ValueTypeOf {
  static_assert(std::is_arithmetic_v<T>, "no metadata are of this type");
  static constexpr ValueType integer() {
    constexpr ValueType kUnsigned[] = {ValueType::kU8, ValueType::kU16, ValueType::kU32,
                                       ValueType::kU64};
    constexpr ValueType kSigned[] = {ValueType::kI8, ValueType::kI16, ValueType::kI32,
                                     ValueType::kI64};
    constexpr int kLog2 = sizeof(T) == 1 ? 0 : sizeof(T) == 2 ? 1 : sizeof(T) == 4 ? 2 : 3;
    return std::is_signed_v<T> ? kSigned[kLog2] : kUnsigned[kLog2];
  }
  static constexpr ValueType value = std::is_same_v<T, bool>     ? ValueType::kBool
                                     : std::is_same_v<T, float>  ? ValueType::kF32
                                     : std::is_same_v<T, double> ? ValueType::kF64
                                                                 : integer();
};
template <std::convertible_to<std::string_view> T>
struct ValueTypeOf<T> {
  static constexpr ValueType value = ValueType::kString;
};
template <class T>
struct ValueTypeOf<std::vector<T>> {
  static constexpr ValueType value = ValueType::kArray;
};

template <class T>
void append_number(std::string& out, T number) {
  const char* begin = reinterpret_cast<const char*>(&number);
  out.append(begin, sizeof number);
}
inline void append_text(std::string& out, std::string_view text) {
  append_number(out, std::uint64_t(text.size()));
  out += text;
}
template <class T>
void append_value(std::string& out, const T& value) {
  if constexpr (std::convertible_to<T, std::string_view>) {
    append_text(out, value);
  } else if constexpr (std::is_same_v<T, bool>) {
    append_number(out, std::uint8_t(value));
  } else {
    append_number(out, value);
  }
}
template <class T>
void append_value(std::string& out, const std::vector<T>& values) {
  append_number(out, std::uint32_t(ValueTypeOf<T>::value));
  append_number(out, std::uint64_t(values.size()));
  for (const T& value : values) append_value(out, value);  // bool: a copy of the bit
}

}  // namespace detail

/// Size and offset of a tensor, fixed when it is added.
struct PlannedTensor {
  std::string name;
  QuantFormat format{};
  std::vector<std::uint64_t> shape;  // shape[0] is the row, contiguous
  std::uint64_t offset = 0;          // bytes from the beginning of the data
  std::uint64_t bytes = 0;           // without padding
};

class GgufHeader {
 public:
  /// `alignment` is a power of two; a file that does not state it has 32.
  explicit GgufHeader(std::uint32_t alignment = 32);

  /// Adds metadata of the type of `value`: uint16_t(3), 1e-5f, true, "text", std::vector<float>. A
  /// key is set once.
  template <class T>
  void set(std::string_view key, const T& value) {
    begin_entry(key, detail::ValueTypeOf<std::decay_t<const T>>::value);
    detail::append_value(entries_, value);
  }

  /// Adds a tensor: 1 to 4 dimensions of at least 1, rows of whole blocks, a new name of 1 to 63
  /// bytes.
  void add_tensor(std::string_view name, QuantFormat format, std::span<const std::uint64_t> shape);
  void add_tensor(std::string_view name, QuantFormat format,
                  std::initializer_list<std::uint64_t> shape) {
    add_tensor(name, format, std::span(shape.begin(), shape.size()));
  }

  std::uint32_t alignment() const { return alignment_; }
  std::span<const PlannedTensor> tensors() const { return tensors_; }
  std::uint64_t data_bytes() const { return data_bytes_; }  // with padding
  std::uint64_t padded(std::uint64_t bytes) const;          // rounded up to the alignment

  /// The header in version 3, padded up to the beginning of the data.
  std::string encode() const;

 private:
  void begin_entry(std::string_view key, ValueType type);

  std::uint32_t alignment_;
  std::set<std::string, std::less<>> names_;  // names of keys, and of tensors with a leading blank
  std::string entries_;
  std::uint64_t entry_count_ = 0;
  std::vector<PlannedTensor> tensors_;
  std::uint64_t data_bytes_ = 0;
};

}  // namespace rigcast::engine
