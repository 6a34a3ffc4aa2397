#pragma once
// What a disk gives, past the page cache, and what the page cache gives.

#include <filesystem>
#include <vector>

#include "core/error.hpp"
#include "core/units.hpp"
#include "probe/takes.hpp"

namespace rigcast::probe {

struct RandomReads {
  int depth = 0;  // requests under way at once
  Takes per_s;    // reads of 4 KiB
};

struct DiskRates {
  Takes sequential;  // bytes/s, large requests, several at once
  std::vector<RandomReads> random;
  Takes page_cache;  // bytes/s, one thread
};

/// Writes a file of `size` into `folder` and reads it again. The file has no name once it is open:
/// whatever ends the process removes it. Errors: the folder cannot be written to, is full, or lies
/// on a file system that reads through memory only.
Result<DiskRates> measure_disk(const std::filesystem::path& folder, Bytes size);
/// Its `sequential` alone: what neighbours on the disk change from minute to minute.
Result<Takes> measure_disk_in_order(const std::filesystem::path& folder, Bytes size);

}  // namespace rigcast::probe
