#include "engine/gguf/value.hpp"

#include <fmt/format.h>

#include <array>
#include <limits>

#include "engine/gguf/clean_text.hpp"

namespace rigcast::engine {
namespace {

struct TypeFacts {
  std::string_view name;
  std::string_view plural;
  std::uint64_t bytes;
};

constexpr std::array<TypeFacts, kValueTypeCount> kTypes = {{
    {"u8", "u8 numbers", 1},
    {"i8", "i8 numbers", 1},
    {"u16", "u16 numbers", 2},
    {"i16", "i16 numbers", 2},
    {"u32", "u32 numbers", 4},
    {"i32", "i32 numbers", 4},
    {"f32", "f32 numbers", 4},
    {"bool", "flags", 1},
    {"string", "strings", 0},
    {"array", "arrays", 0},
    {"u64", "u64 numbers", 8},
    {"i64", "i64 numbers", 8},
    {"f64", "f64 numbers", 8},
}};

constexpr std::size_t kMaxShownLength = 72;  // characters of a text

const TypeFacts& facts(ValueType type) { return kTypes[std::size_t(type)]; }

// The smallest size of a value in bytes, which bounds a count before anything is read.
std::uint64_t min_bytes(ValueType type) {
  if (type == ValueType::kString) return 8;
  if (type == ValueType::kArray) return 12;
  return fixed_bytes(type);
}

template <class T>
T load(std::span<const std::byte> bytes) {
  return *Cursor(bytes).number<T>();
}

Error cut_off(const Cursor& cursor, std::string_view what) {
  return error_at(cursor.offset(), fmt::format("the file ends within {}", what),
                  "it was cut off, or is still being copied: fetch it again");
}

// The beginning of a text, up to the length that is shown, without cutting a UTF-8 character.
std::string_view beginning(std::string_view text) {
  if (text.size() <= kMaxShownLength) return text;
  std::size_t end = kMaxShownLength;
  while (end > kMaxShownLength - 4 && (static_cast<unsigned char>(text[end]) & 0xC0u) == 0x80u)
    --end;
  return text.substr(0, end);
}

std::string counted(std::uint64_t count, ValueType type) {
  std::string_view word = plural(type);
  if (count == 1) word.remove_suffix(1);
  return fmt::format("[{} {}]", count, word);
}

}  // namespace

std::string_view name(ValueType type) { return facts(type).name; }
std::string_view plural(ValueType type) { return facts(type).plural; }
std::uint64_t fixed_bytes(ValueType type) { return facts(type).bytes; }

Error error_at(std::uint64_t byte, const std::string& what, std::string hint) {
  return bad_input(fmt::format("{}, at byte {}", what, byte), std::move(hint));
}

std::optional<std::int64_t> Value::integer() const {
  switch (type_) {
    case ValueType::kU8: return load<std::uint8_t>(bytes_);
    case ValueType::kI8: return load<std::int8_t>(bytes_);
    case ValueType::kU16: return load<std::uint16_t>(bytes_);
    case ValueType::kI16: return load<std::int16_t>(bytes_);
    case ValueType::kU32: return load<std::uint32_t>(bytes_);
    case ValueType::kI32: return load<std::int32_t>(bytes_);
    case ValueType::kI64: return load<std::int64_t>(bytes_);
    case ValueType::kU64: {
      const auto value = load<std::uint64_t>(bytes_);
      if (value > std::uint64_t(std::numeric_limits<std::int64_t>::max())) return std::nullopt;
      return std::int64_t(value);
    }
    default: return std::nullopt;
  }
}

std::optional<double> Value::number() const {
  if (type_ == ValueType::kF32) return double(load<float>(bytes_));
  if (type_ == ValueType::kF64) return load<double>(bytes_);
  if (type_ == ValueType::kU64) return double(load<std::uint64_t>(bytes_));
  if (const auto whole = integer()) return double(*whole);
  return std::nullopt;
}

std::optional<bool> Value::flag() const {
  if (type_ != ValueType::kBool) return std::nullopt;
  return load<std::uint8_t>(bytes_) != 0;
}

std::optional<std::string_view> Value::text() const {
  if (type_ != ValueType::kString) return std::nullopt;
  return as_text(bytes_);
}

Value Value::element(Cursor& cursor) const {
  auto value = read_value(cursor, element_);
  RIGCAST_ASSERT(value.ok());  // cannot fail: it was read once, with the array
  return *std::move(value);
}

namespace {

// All elements converted by `get`; nullopt if one cannot be converted.
template <class T, class Get>
std::optional<std::vector<T>> all_of(const Value& array, Get get) {
  if (array.type() != ValueType::kArray) return std::nullopt;
  std::vector<T> out;
  out.reserve(std::size_t(array.count()));  // no more than there are bytes in the file
  bool every = true;
  array.each([&](const Value& v) {
    const auto element = get(v);
    every = every && element.has_value();
    if (every) out.push_back(*element);
  });
  if (!every) return std::nullopt;
  return out;
}

}  // namespace

std::optional<std::vector<std::string_view>> Value::texts() const {
  return all_of<std::string_view>(*this, [](const Value& v) { return v.text(); });
}
std::optional<std::vector<std::int64_t>> Value::integers() const {
  return all_of<std::int64_t>(*this, [](const Value& v) { return v.integer(); });
}
std::optional<std::vector<double>> Value::numbers() const {
  return all_of<double>(*this, [](const Value& v) { return v.number(); });
}

Result<ValueType> read_value_type(Cursor& cursor) {
  const std::uint64_t at = cursor.offset();
  const auto id = cursor.number<std::uint32_t>();
  if (!id) return cut_off(cursor, "the type of a value");
  if (*id < kValueTypeCount) return ValueType(*id);
  return error_at(at, fmt::format("no value has the type {}", *id),
                  "the file is damaged, or newer than GGUF version 3");
}

namespace {

Result<std::span<const std::byte>> read_string(Cursor& cursor) {
  const std::uint64_t at = cursor.offset();
  const auto length = cursor.number<std::uint64_t>();
  if (!length) return cut_off(cursor, "the length of a string");
  if (const auto text = cursor.take(*length)) return *text;
  return error_at(
      at,
      fmt::format("a string of {} bytes, and the file has {} more", *length, cursor.remaining()),
      "the file is damaged or cut off");
}

struct ArrayHead {
  ValueType element{};
  std::uint64_t count = 0;
};

Result<ArrayHead> read_array_head(Cursor& cursor, int depth) {
  if (depth >= kMaxArrayDepth)
    return error_at(cursor.offset(),
                    fmt::format("arrays in arrays, more than {} deep", kMaxArrayDepth));
  const auto element = read_value_type(cursor);
  if (!element) return element.error();
  const std::uint64_t at = cursor.offset();
  const auto count = cursor.number<std::uint64_t>();
  if (!count) return cut_off(cursor, "the length of an array");
  if (*count > cursor.remaining() / min_bytes(*element))
    return error_at(at,
                    fmt::format("an array of {} {}, and the file has {} more bytes", *count,
                                plural(*element), cursor.remaining()),
                    "the file is damaged or cut off");
  return ArrayHead{*element, *count};
}

}  // namespace

Result<Value> read_value(Cursor& cursor, ValueType type, int depth) {
  Value value;
  value.type_ = type;
  if (type == ValueType::kString) {
    const auto text = read_string(cursor);
    if (!text) return text.error();
    value.bytes_ = *text;
    return value;
  }
  if (type != ValueType::kArray) {
    const auto bytes = cursor.take(fixed_bytes(type));
    if (!bytes) return cut_off(cursor, fmt::format("a value of type {}", name(type)));
    value.bytes_ = *bytes;
    return value;
  }
  const auto head = read_array_head(cursor, depth);
  if (!head) return head.error();
  value.element_ = head->element;
  value.count_ = head->count;
  Cursor elements = cursor;
  if (const std::uint64_t each = fixed_bytes(head->element); each > 0) {
    cursor.take(head->count * each);  // the count is bounded by the bytes that are left
  } else {
    for (std::uint64_t i = 0; i < head->count; ++i)
      if (auto inner = read_value(cursor, head->element, depth + 1); !inner) return inner.error();
  }
  value.bytes_ = *elements.take(cursor.offset() - elements.offset());
  return value;
}

std::string value_text(const Value& value) {
  if (value.type() == ValueType::kArray) return counted(value.count(), value.element_type());
  if (const auto text = value.text()) {
    const std::string_view shown = beginning(*text);
    return fmt::format("\"{}\"{}", clean_text(shown), shown.size() < text->size() ? "..." : "");
  }
  if (const auto flag = value.flag()) return *flag ? "true" : "false";
  if (const auto whole = value.integer()) return fmt::format("{}", *whole);
  if (value.type() == ValueType::kF32) return fmt::format("{}", float(*value.number()));
  return fmt::format("{}", *value.number());
}

}  // namespace rigcast::engine
