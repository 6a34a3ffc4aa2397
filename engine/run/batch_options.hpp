#pragma once
// Options of a batch executor, beside those of an executor.

#include <optional>

namespace rigcast::engine {

/// The blocks in which a batch executor keeps keys and values, and the longest step.
/// ExecutorOptions::ubatch is the number of tokens that a step may have.
struct BatchPool {
  std::optional<int> blocks{};  // absent: as many as fit into memory
  int host_blocks = 0;          // of the pool in the host's memory
  int step_sequences = 64;      // the most sequences of a step
};

}  // namespace rigcast::engine
