#pragma once
// Tokens that samplers choose from logits in the host's memory, by all threads: one thread takes as
// long for a vocabulary as all take for some layers of a small model.

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "engine/run/recorder.hpp"
#include "engine/run/sampler.hpp"
#include "engine/threads/thread_team.hpp"

namespace rigcast::engine {

/// A row of logits, of the vocabulary's width, and who chooses from it.
struct SampledLogits {
  Sampler* sampler;
  std::span<const float> logits;
};

/// What each row's sampler chooses, the same as Sampler::next(); nothing where a logit is not a
/// number. Every member of the team looks for the likeliest tokens in parts of the rows. If one
/// fails, or is asked to stop, no sampler has drawn: the step may be repeated.
std::vector<std::optional<std::int32_t>> choose_tokens(ThreadTeam& team,
                                                       std::span<const SampledLogits> rows);

/// As sample() of engine/run/executor.hpp, by all members of the team.
std::int32_t sample(ThreadTeam& team, const SampledLogits& row, TokenCount cached,
                    Recorder* recorder);

}  // namespace rigcast::engine
