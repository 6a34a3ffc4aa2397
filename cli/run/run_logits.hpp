#pragma once
// rigcast run --tokens ids.txt --logits out.npy

#include <string>

#include "core/scenario/scenario.hpp"
#include "validation/runs/execute_options.hpp"

namespace rigcast::cli {

struct LogitsOptions {
  std::string tokens_file;  // ids, separated by blanks, commas or lines
  std::string logits_file;
};

/// Feeds the ids and writes the logits after each of them, [ids][vocabulary] of float32. Gives the
/// exit code.
int write_logits(const Scenario& scenario, const validation::ExecuteOptions& execute,
                 const LogitsOptions& options);

}  // namespace rigcast::cli
