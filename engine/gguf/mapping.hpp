#pragma once
// A file as memory: pages are read when they are touched.

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>

#include "core/base/error.hpp"

namespace rigcast::engine {

/// Read-only, unmapped with it. Who shortens the file meanwhile sends the process that reads past
/// its new end a signal, SIGBUS, and so does a disk that fails: that is no error.
class Mapping {
 public:
  /// Errors: no such file, a folder or a device, empty, not readable; the machine does not map it.
  static Result<Mapping> open(const std::filesystem::path& file);

  Mapping(Mapping&& other) noexcept;
  Mapping& operator=(Mapping&& other) noexcept;
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  ~Mapping();

  std::span<const std::byte> bytes() const { return bytes_; }
  /// To read the same file another way, whatever has its name by then.
  int descriptor() const { return descriptor_; }

 private:
  Mapping() = default;

  std::span<const std::byte> bytes_;
  int descriptor_ = -1;
  std::shared_ptr<const void> listed_;  // while it lives, mapped_file() knows the bytes
};

/// The path of the file that is mapped at an address, as it was opened; nullptr: no Mapping's. For
/// signal handlers.
const char* mapped_file(const void* address) noexcept;

}  // namespace rigcast::engine
