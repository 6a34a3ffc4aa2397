#pragma once
// Tokens that follow several sequences, chosen from logits in the host's memory.

#include <cstdint>
#include <span>

#include "engine/run/batch_executor.hpp"
#include "engine/threads/thread_team.hpp"

namespace rigcast::engine {

/// Logits of some sequences of a step.
struct SampledRows {
  std::span<const std::size_t> sequences;  // which of the step's, all of which have a sampler
  std::span<const float> logits;           // [of these][vocabulary]
  std::size_t vocabulary = 0;
};

/// chosen[sequence] = the id that its sampler chooses, or BatchExecutor::kNotNumbers. All members
/// of the team look through the rows. If one fails, or is asked to stop, no sampler has drawn: the
/// step may be repeated.
void sample_rows(ThreadTeam& team, std::span<const SequenceStep> step, const SampledRows& rows,
                 std::span<std::int32_t> chosen);

}  // namespace rigcast::engine
