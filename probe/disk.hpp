#pragma once
// Rates of a disk, bypassing the page cache, and of the page cache.

#include <filesystem>
#include <optional>
#include <vector>

#include "core/base/error.hpp"
#include "core/base/stop_flag.hpp"
#include "core/base/units.hpp"
#include "probe/samples.hpp"

namespace rigcast::probe {

struct RandomReads {
  int depth = 0;  // requests in flight
  Samples per_s;  // reads of 4 KiB
};

struct DiskRates {
  Samples sequential;  // bytes/s of large direct requests, several in flight
  Samples mapped;      // bytes/s of uncached pages of a mapping, several threads
  std::vector<RandomReads> random;
  Samples page_cache;  // bytes/s, one thread
  Samples cached_map;  // bytes/s at which pages that are cached enter a mapping
  Bytes readahead;     // of the system for files on this disk; 0: it does not tell
};

/// Writes a file of `size` into `folder` and reads it again. The file has no name once it is open:
/// whatever ends the process removes it. Errors: the folder cannot be written to, is full, or lies
/// on a file system that reads through memory only.
/// Both throw Interrupted.
Result<DiskRates> measure_disk(const std::filesystem::path& folder, Bytes size,
                               const StopFlag& stop = {});
/// Measures only `sequential` and `mapped` of `rates` again, which other users of the disk change
/// from minute to minute. Errors: those of measure_disk().
std::optional<Error> measure_disk_in_order(const std::filesystem::path& folder, Bytes size,
                                           DiskRates& rates, const StopFlag& stop = {});

}  // namespace rigcast::probe
