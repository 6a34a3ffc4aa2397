#pragma once
// Swap of a run under pressure: on a file, or on zram.

#include <filesystem>
#include <memory>
#include <optional>

#include "core/base/error.hpp"
#include "core/pressure/memory_settings.hpp"

namespace rigcast::validation {

/// The system swaps on it while the object lives. The process must be root's.
class SwapArea {
 public:
  /// A file in `folder`, on a file system whose files may be swapped on, or a zram device, of which
  /// `folder` keeps a note. Those of processes that were killed are removed first. Errors:
  /// kMachine, with what has to be there.
  static Result<std::unique_ptr<SwapArea>> open(const std::filesystem::path& folder, Bytes bytes,
                                                SwapDevice device);
  ~SwapArea();
  SwapArea(const SwapArea&) = delete;
  SwapArea& operator=(const SwapArea&) = delete;

 private:
  explicit SwapArea(std::filesystem::path file) : file_(std::move(file)) {}
  std::filesystem::path file_;  // what is swapped on, or the note that names the zram device
};

/// The swap of the run that comes next.
class SwapOfRuns {
 public:
  /// As much swap as the run has, on its device; none where it has none.
  std::optional<Error> set(const std::filesystem::path& folder,
                           const std::optional<MemorySettings>& run);

 private:
  std::unique_ptr<SwapArea> area_;
  Bytes bytes_;
  SwapDevice device_ = SwapDevice::kDisk;
};

}  // namespace rigcast::validation
