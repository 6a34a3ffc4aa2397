#pragma once
// What a disk gives, past the page cache, and what the page cache gives.

#include <filesystem>
#include <optional>
#include <vector>

#include "core/base/error.hpp"
#include "core/base/stop_flag.hpp"
#include "core/base/units.hpp"
#include "probe/takes.hpp"

namespace rigcast::probe {

struct RandomReads {
  int depth = 0;  // requests under way at once
  Takes per_s;    // reads of 4 KiB
};

struct DiskRates {
  Takes sequential;  // bytes/s, large requests past the page cache, several at once
  Takes mapped;      // bytes/s, pages of a mapping that the page cache lacks, several threads
  std::vector<RandomReads> random;
  Takes page_cache;  // bytes/s, one thread
};

/// Writes a file of `size` into `folder` and reads it again. The file has no name once it is open:
/// whatever ends the process removes it. Errors: the folder cannot be written to, is full, or lies
/// on a file system that reads through memory only.
/// Both throw Interrupted.
Result<DiskRates> measure_disk(const std::filesystem::path& folder, Bytes size,
                               const StopFlag& stop = {});
/// `sequential` and `mapped` of `rates` alone: what neighbours on the disk change from minute to
/// minute. Errors: the same.
std::optional<Error> measure_disk_in_order(const std::filesystem::path& folder, Bytes size,
                                           DiskRates& rates, const StopFlag& stop = {});

}  // namespace rigcast::probe
