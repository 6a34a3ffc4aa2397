#pragma once
// Values of a GGUF file's metadata: views into its bytes, decoded on access.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/error.hpp"
#include "engine/gguf/cursor.hpp"

namespace rigcast::engine {

/// Value types, by their ids in files.
enum class ValueType : std::uint32_t {
  kU8,
  kI8,
  kU16,
  kI16,
  kU32,
  kI32,
  kF32,
  kBool,
  kString,
  kArray,
  kU64,
  kI64,
  kF64,
};
inline constexpr std::uint32_t kValueTypeCount = 13;

std::string_view name(ValueType type);    // "u32"
std::string_view plural(ValueType type);  // "strings": what an array holds
/// Bytes of one value; 0 for strings and arrays, whose size differs.
std::uint64_t fixed_bytes(ValueType type);

class Value {
 public:
  ValueType type() const { return type_; }

  std::optional<std::int64_t> integer() const;  // for any integer type, if the value fits
  std::optional<double> number() const;         // for any integer or floating-point type
  std::optional<bool> flag() const;
  std::optional<std::string_view> text() const;  // any bytes, as in the file

  /// The number of elements of an array; 0 for any other value.
  std::uint64_t count() const { return count_; }
  ValueType element_type() const { return element_; }
  template <class F>
  void each(F&& f) const {
    Cursor cursor(bytes_);
    for (std::uint64_t i = 0; i < count_; ++i) f(element(cursor));
  }
  /// All elements of an array of strings, of integers, of numbers; nullopt for anything else.
  std::optional<std::vector<std::string_view>> texts() const;
  std::optional<std::vector<std::int64_t>> integers() const;
  std::optional<std::vector<double>> numbers() const;

 private:
  friend Result<Value> read_value(Cursor& cursor, ValueType type, int depth);
  Value element(Cursor& cursor) const;

  ValueType type_ = ValueType::kU8;
  ValueType element_ = ValueType::kU8;
  std::uint64_t count_ = 0;
  std::span<const std::byte> bytes_;  // characters of a string, elements of an array
};

/// Arrays nest at most this deep.
inline constexpr int kMaxArrayDepth = 8;

/// Moves the cursor past one value. Errors say what is wrong and at which byte; they name no file.
Result<Value> read_value(Cursor& cursor, ValueType type, int depth = 0);
/// Reads the type id before a value.
Result<ValueType> read_value_type(Cursor& cursor);

/// An error "...: at byte N".
Error error_at(std::uint64_t byte, const std::string& what, std::string hint = {});

/// A readable form of the value: text in quotes, shortened if it is long; an array as "[128256
/// strings]".
std::string value_text(const Value& value);

}  // namespace rigcast::engine
