#pragma once
// Scripts with which other programs run the shards of a sweep.

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/error.hpp"

namespace rigcast::cli {

struct SweepJob {
  std::vector<std::string> words;  // of the command, without those of shards and of the output
  std::string output;              // of the whole sweep; its shards are written beside it
  std::int64_t scenarios = 0;
  int shards = 0;  // 0: so many that each takes minutes
  int cores = 0;   // of one shard; 0: what is usual with the engine
};

/// For "slurm", "parallel", "snakemake" or "condor". Errors: another engine; an output whose name
/// a shell would need quotes for.
Result<std::string> job_script(const std::string& engine, const SweepJob& job);

}  // namespace rigcast::cli
