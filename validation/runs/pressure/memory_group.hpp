#pragma once
// Runs under memory pressure: a control group of Linux that limits this process's memory, and the
// kernel's counters of what comes back.

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
