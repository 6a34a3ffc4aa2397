#pragma once
// Shards put together again.

#include <cstdint>
#include <string>
#include <vector>

#include "cli/sweep/shard_file.hpp"

namespace rigcast::cli {

struct MergedShards {
  Format format = Format::kCsv;
  std::vector<std::string> keys;  // the swept ones
  std::int64_t scenarios = 0, refused = 0;
  std::string header;
  std::vector<std::string> pieces;  // of all scenarios, in their order
};

/// The sweep whose shards the files are, in whatever order they are named: the bytes that it has
/// without shards. Errors: a file is no shard; a shard of another sweep, of another program or with
/// other inputs is among them; one is there twice, or missing.
Result<MergedShards> merge_shards(const std::vector<std::string>& files);

}  // namespace rigcast::cli
