#pragma once
// Runs under memory pressure: a control group of Linux that limits this process's memory, a swap
// file, and the kernel's counters of what comes back.

#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "core/base/error.hpp"
#include "core/pressure/memory_settings.hpp"

namespace rigcast::validation {

/// Bytes that the kernel has read for this process since it began.
struct PagedIn {
  Bytes files;    // from disks, without swap
  Bytes swapped;  // from swap devices, for any process
};
/// nullopt where the system does not tell.
std::optional<PagedIn> paged_in();

/// A file on which the system swaps, while the object lives.
class SwapFile {
 public:
  /// In `folder`, on a file system whose files may be swapped on. Those of processes that were
  /// killed are removed first. Errors: kMachine, with what has
  /// to be there; the process must be root's.
  static Result<std::unique_ptr<SwapFile>> open(const std::filesystem::path& folder, Bytes bytes);
  ~SwapFile();
  SwapFile(const SwapFile&) = delete;
  SwapFile& operator=(const SwapFile&) = delete;

 private:
  explicit SwapFile(std::filesystem::path path) : path_(std::move(path)) {}
  std::filesystem::path path_;
};

/// The swap file of the run that comes next.
class SwapOfRuns {
 public:
  /// As much swap on a file in `folder` as the run has on a disk; none where it has none.
  std::optional<Error> set(const std::filesystem::path& folder,
                           const std::optional<MemorySettings>& run);

 private:
  std::unique_ptr<SwapFile> file_;
  Bytes bytes_;  // of the file
};

/// The process is in a control group with a limit while the object lives. Pages of files that were
/// in memory before are not counted to it: they are to be dropped first.
class MemoryGroup {
 public:
  /// Errors: kMachine where there is no controller of memory that this process may use.
  static Result<std::unique_ptr<MemoryGroup>> enter(const MemorySettings& settings);
  ~MemoryGroup();
  MemoryGroup(const MemoryGroup&) = delete;
  MemoryGroup& operator=(const MemoryGroup&) = delete;

 private:
  MemoryGroup(std::filesystem::path home, std::filesystem::path group)
      : home_(std::move(home)), group_(std::move(group)) {}
  std::filesystem::path home_, group_;
};

/// Error: a run under pressure cannot be made here. `engine`: it is rigcast's own.
std::optional<Error> check_pressure(const std::optional<MemorySettings>& run, bool engine);

}  // namespace rigcast::validation
