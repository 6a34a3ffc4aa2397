#pragma once
// The rows of a step of many sequences: those of one sequence are neighbours.

#include <cstdint>
#include <vector>

#include "engine/backends/cpu/step/cpu_step.hpp"
#include "engine/run/batch_executor.hpp"

namespace rigcast::engine {

/// Views block tables that its caller keeps.
struct PlacedRows {
  std::vector<StepSequence> sequences;
  std::vector<std::int32_t> ids;  // by row

  void clear() {
    sequences.clear();
    ids.clear();
  }
  void add(const SequenceStep& s) {
    sequences.push_back({s.cached, std::int64_t(ids.size()), std::int64_t(s.tokens.size()),
                         BlockTable(s.blocks, s.window_blocks), s.state});
    ids.insert(ids.end(), s.tokens.begin(), s.tokens.end());
  }
  std::int64_t last_row(std::size_t sequence) const {
    return sequences[sequence].first + sequences[sequence].tokens - 1;
  }
};

}  // namespace rigcast::engine
