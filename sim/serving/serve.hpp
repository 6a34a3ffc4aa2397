#pragma once
// Requests that arrive at a server, the steps in which it computes them, and when each of their
// tokens is there.

#include <functional>
#include <limits>
#include <vector>

#include "core/base/error.hpp"
#include "core/base/units.hpp"
#include "sim/serving/arrivals.hpp"

namespace rigcast {

/// How a server with continuous batching fills its steps.
struct SchedulerPolicy {
  TokenCount step_tokens = 2048;  // at most so many are computed in a step
  std::size_t sequences = 256;    // at most so many run
  TokenCount block_tokens = 16;   // of a block of the KV cache
  bool prefix_cache = true;       // blocks of other prompts are used where they hold the same
  bool whole_prompts = true;      // admitted only where all of its tokens so far have blocks
};

/// A part of a step: new tokens of one sequence behind those that are cached.
struct SequenceWork {
  TokenCount cached = 0;
  TokenCount tokens = 0;
};

/// What a step computes.
struct StepWork {
  std::vector<SequenceWork> prompts;
  TokenCount decodes = 0;     // sequences with one new token
  double decodes_cached = 0;  // tokens before those, of all of them
};

/// Seconds of a step, above 0. Of steps without prompts they must be linear in `decodes_cached`.
using StepTime = std::function<Seconds(const StepWork&)>;

/// When what of a request happened; times since the load's start.
struct ServedTimes {
  Seconds scheduled, first_token, last_token;
  TokenCount hit = 0;  // tokens of the prompt that were in the cache when it was first scheduled
  int preemptions = 0;
};

/// A whole load, and what it took of the server.
struct ServingRun {
  std::vector<ServedRequest> load;
  std::vector<ServedTimes> requests;  // of the load, in its order
  std::int64_t steps = 0;
  Seconds busy;                      // in steps
  Seconds end;                       // of the last step
  std::int64_t computed_tokens = 0;  // of prompts and answers, again after a preemption
  std::int64_t hit_tokens = 0;       // found in the cache, at every admission
  std::int64_t lost_tokens = 0;      // computed or found, and given up by preemptions
  // Sums over time of requests that wait, requests that run, and blocks in use: request-seconds
  // and block-seconds.
  double waiting = 0, running = 0, blocks = 0;
  std::size_t peak_blocks = 0;
  std::size_t free_blocks_at_end = 0;
};

/// vLLM's scheduler (V1): requests that run get their tokens first, in the order of admission; one
/// without a free block takes those of the request that was admitted last, which starts anew. Then
/// waiting ones are admitted in order of arrival, with as many tokens of their prompts as the step
/// has left. `blocks`: of the KV cache. Source: vllm/v1/core/sched/scheduler.py.
/// Errors: a request that does not fit into the cache alone, arrives before the one before it, has
/// no tokens, or continues a later one; a policy that lets nothing run.
Result<ServingRun> serve(Arrivals& arrivals, const SchedulerPolicy& policy, std::size_t blocks,
                         const StepTime& time);
Result<ServingRun> serve(const std::vector<ServedRequest>& load, const SchedulerPolicy& policy,
                         std::size_t blocks, const StepTime& time);

}  // namespace rigcast
