#pragma once
// Options of an executor of many sequences, beside those of every executor.

#include <optional>

#include "core/base/units.hpp"

namespace rigcast::engine {

struct BatchOptions {
  /// Blocks of the pool, of ExecutorOptions::kv_block tokens each; absent: as many as the limit of
  /// its memory leaves room for.
  std::optional<int> blocks{};
  /// Where the GPU has no room for `blocks`, and none of them may be cold, the pool has as many as
  /// fit, but at least so many; absent: all of `blocks`.
  std::optional<int> least_blocks{};
  int host_blocks = 0;           // of the pool in the host's memory, to which blocks can be moved
  TokenCount step_tokens = 512;  // the most tokens of a step
  int step_sequences = 16;       // the most sequences of a step
  /// Of what sequences keep beside their blocks: states of recurrent layers, and windows where
  /// these are apart. A model without has none.
  int checkpoints = 0;
  /// Layers with a window have a pool of their own, of window_pool_blocks() blocks, where that is
  /// smaller than that of the others; false: they have each block as all layers do. Not with
  /// blocks in the host's memory to which others can be moved.
  bool windows_apart = false;
};

}  // namespace rigcast::engine
