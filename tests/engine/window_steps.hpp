#pragma once
// Steps of several sequences whose layers with a window have a pool of their own, beside the same
// steps in one pool.

#include <cstdint>
#include <span>
#include <vector>

#include "engine/serve/kv_pool.hpp"
#include "tests/catch.hpp"

namespace rigcast::engine::fixtures {

/// A sequence with its blocks in both pools.
struct Running {
  std::vector<std::int32_t> tokens;
  TokenCount computed = 0;
  SequenceBlocks apart{}, together{};
};

/// The logits of a step that computes the next counts[i] tokens of sequence i, whose blocks in
/// `pool` are the member `blocks`.
inline std::vector<float> step(BatchExecutor& executor, KvPool& pool, std::span<Running> sequences,
                               std::span<const TokenCount> counts,
                               SequenceBlocks Running::*blocks) {
  std::vector<SequenceStep> steps;
  for (std::size_t i = 0; i < sequences.size(); ++i) {
    Running& s = sequences[i];
    if (counts[i] == 0) continue;
    SequenceBlocks& own = s.*blocks;
    REQUIRE(pool.grow(own, s.computed + counts[i]));
    steps.push_back({std::span(s.tokens).subspan(std::size_t(s.computed), std::size_t(counts[i])),
                     s.computed, own.blocks, nullptr, int(i), own.window_blocks});
  }
  const auto logits = executor.logits(steps);
  for (std::size_t i = 0; i < sequences.size(); ++i)
    if (counts[i] > 0) pool.leave_windows(sequences[i].*blocks, sequences[i].computed + counts[i]);
  return {logits.begin(), logits.end()};
}

}  // namespace rigcast::engine::fixtures
