#pragma once
// A file as memory: pages are read when they are touched.

#include <cstddef>
#include <filesystem>
#include <span>

#include "core/error.hpp"

namespace rigcast::engine {

/// Read-only, unmapped with it. Who shortens the file meanwhile ends the process that reads past
/// its new end: that is a signal, no error.
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

 private:
  explicit Mapping(std::span<const std::byte> bytes) : bytes_(bytes) {}

  std::span<const std::byte> bytes_;
};

}  // namespace rigcast::engine
