#pragma once
// A cursor that reads bytes in order and never past their end. Headers are read only through it.

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string_view>
#include <type_traits>

namespace rigcast::engine {

static_assert(std::endian::native == std::endian::little, "files are read as they lie in memory");

/// The bytes as characters.
inline std::string_view as_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// A cursor. A read beyond the remaining bytes returns nullopt and does not move it.
class Cursor {
 public:
  explicit Cursor(std::span<const std::byte> bytes) : bytes_(bytes) {}

  std::uint64_t offset() const { return at_; }  // bytes from the beginning
  std::uint64_t remaining() const { return bytes_.size() - at_; }

  /// A little-endian number at any alignment.
  template <class T>
  std::optional<T> number() {
    static_assert(std::is_arithmetic_v<T>);
    const auto raw = take(sizeof(T));
    if (!raw) return std::nullopt;
    T value;
    std::memcpy(&value, raw->data(), sizeof value);
    return value;
  }

  std::optional<std::span<const std::byte>> take(std::uint64_t count) {
    if (count > remaining()) return std::nullopt;
    const auto taken = bytes_.subspan(std::size_t(at_), std::size_t(count));
    at_ += count;
    return taken;
  }

 private:
  std::span<const std::byte> bytes_;
  std::uint64_t at_ = 0;
};

}  // namespace rigcast::engine
