#pragma once
// Sequences that begin at once and get their tokens in the same steps, as llama-batched-bench times
// them: no server, no queue, and no token that is sampled.

#include "core/base/error.hpp"
#include "core/scenario/scenario.hpp"
#include "perfmodel/context/profile_interval.hpp"

namespace rigcast {

struct LockstepLoad {
  int sequences = 1;
  TokenCount prompt = 1, answer = 1;  // tokens of each
  bool shared_prompt = false;         // computed once, then copied to all
  bool separate_answers = false;      // the answers are computed one after the other
};

/// Seconds in which all prompts are computed, then all answers; at 1, 1 as forecast, else at an end
/// of the interval.
struct LockstepTimes {
  Seconds prompts, answers;
};
struct LockstepForecast {
  LockstepTimes times, fastest, slowest;
};

/// llama.cpp takes the prompts in pieces of `--batch` tokens, and needs the logits of the last
/// token alone. Its cache copies a shared prompt for each sequence.
/// Errors: weights and the caches of all sequences do not fit.
Result<LockstepForecast> forecast_lockstep(const Scenario& scenario, const LockstepLoad& load);

}  // namespace rigcast
