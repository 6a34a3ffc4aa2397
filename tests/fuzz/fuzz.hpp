#pragma once
// What fuzzing targets share. libFuzzer calls LLVMFuzzerTestOneInput with ever other bytes.

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "core/base/error.hpp"

namespace rigcast::fuzz {

/// Where the compiler must believe that every byte counts.
inline volatile std::size_t sink = 0;

/// Bytes, taken from the front; zeros once there are none.
class Input {
 public:
  Input(const std::uint8_t* data, std::size_t size)
      : bytes_(reinterpret_cast<const char*>(data), size) {}

  unsigned byte() {
    if (bytes_.empty()) return 0;
    const auto b = static_cast<unsigned char>(bytes_.front());
    bytes_.remove_prefix(1);
    return b;
  }
  unsigned below(unsigned n) { return byte() % n; }
  std::string_view take(std::size_t most) {
    const std::string_view taken = bytes_.substr(0, most);
    bytes_.remove_prefix(taken.size());
    return taken;
  }
  std::string_view rest() const { return bytes_; }

 private:
  std::string_view bytes_;
};

/// An error says what is wrong.
inline void check(const Error& error) { RIGCAST_ASSERT(!error.message.empty()); }
template <class T>
bool check(const Result<T>& result) {
  if (!result) check(result.error());
  return result.ok();
}

/// A file in memory, for readers of paths: the same one over and over.
class MemoryFile {
 public:
  MemoryFile() : file_(::memfd_create("fuzz", MFD_CLOEXEC)) { RIGCAST_ASSERT(file_ >= 0); }
  ~MemoryFile() { ::close(file_); }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  std::filesystem::path holding(std::string_view text) {
    RIGCAST_ASSERT(::ftruncate(file_, 0) == 0);
    RIGCAST_ASSERT(::pwrite(file_, text.data(), text.size(), 0) == ::ssize_t(text.size()));
    return "/proc/self/fd/" + std::to_string(file_);
  }

 private:
  int file_;
};

}  // namespace rigcast::fuzz
