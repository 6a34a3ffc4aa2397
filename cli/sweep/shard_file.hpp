#pragma once
// What a shard leaves beside its output, by which all shards are put together again.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/shared/output.hpp"
#include "cli/sweep/shard.hpp"

namespace rigcast::cli {

/// Of a sweep's scenarios: how many there are, how many make a piece (the last one has fewer).
struct PieceCount {
  std::int64_t scenarios = 0, piece_size = 1;

  std::int64_t pieces() const { return (scenarios + piece_size - 1) / piece_size; }
};

/// FILE.shard, JSON as docs/report.md has it. Ids are the same for shards of one sweep.
struct ShardFile {
  Shard shard;
  std::string sweep_id, program_id, inputs_id;
  Format format = Format::kCsv;
  std::vector<std::string> keys;  // the swept ones
  PieceCount all;
  std::int64_t refused = 0;               // scenarios of this shard that cannot be made
  std::int64_t header_bytes = 0;          // of the output
  std::vector<std::int64_t> piece_bytes;  // pieces index - 1, index - 1 + count, ... of all
  std::string output_hash;
};

/// Stands for the bytes of an output.
std::string output_hash(const std::string& output);

/// Errors are of the machine.
std::optional<Error> write_shard_file(const std::string& output, const ShardFile& shard);

/// The output and what is beside it. Errors: one of the two cannot be read, or they do not belong
/// together.
struct ShardOutput {
  std::string file, text;
  ShardFile about;
};
Result<ShardOutput> read_shard(const std::string& file);

}  // namespace rigcast::cli
