#pragma once
// rigcast run --tokens ids.txt --logits out.npy

#include <string>

#include "cli/executed.hpp"
#include "core/scenario/scenario.hpp"

namespace rigcast::cli {

struct LogitsOptions {
  std::string tokens_file;  // ids, separated by blanks, commas or lines
  std::string logits_file;
};

/// Feeds the ids and writes the logits after each of them, [ids][vocabulary] of float32. Gives the
/// exit code.
int write_logits(const Scenario& scenario, const ExecuteOptions& execute,
                 const LogitsOptions& options);

}  // namespace rigcast::cli
