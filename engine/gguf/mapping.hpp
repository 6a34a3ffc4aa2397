#pragma once
// A memory-mapped file: pages are read when they are touched.

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>

#include "core/base/error.hpp"

namespace rigcast::engine {

/// A read-only mapping, unmapped by its destructor. If the file is truncated meanwhile, or the disk
/// fails, a process that reads the missing pages gets the signal SIGBUS, not an error.
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
  /// A descriptor for reading the same file by other means, even if its name now belongs to another
  /// one.
  int descriptor() const { return descriptor_; }

 private:
  Mapping() = default;

  std::span<const std::byte> bytes_;
  int descriptor_ = -1;
  std::shared_ptr<const void> listed_;  // while it lives, mapped_file() finds this mapping
};

/// The path, as it was opened, of the file that is mapped at an address; nullptr: not a Mapping.
/// Safe in signal handlers.
const char* mapped_file(const void* address) noexcept;

}  // namespace rigcast::engine
