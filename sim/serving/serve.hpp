#pragma once
// Requests that arrive at a server, the steps in which it computes them, and when each of their
// tokens is there.

#include <functional>
#include <limits>
#include <vector>

#include "core/base/error.hpp"
#include "core/base/units.hpp"
#include "core/runtime/scheduler_policy.hpp"
#include "sim/machine/copy_links.hpp"
#include "sim/serving/cache/cache_room.hpp"
#include "sim/serving/cache/ram_tier.hpp"
#include "sim/serving/gap_histogram.hpp"
#include "sim/serving/load/arrivals.hpp"
#include "sim/serving/watch/serving_watch.hpp"

namespace rigcast {

/// A part of a step: new tokens of one sequence behind those that are cached.
struct SequenceWork {
  TokenCount cached = 0;
  TokenCount tokens = 0;
  bool ends = true;  // they are its last known ones: a token of its answer follows
};

/// What a step computes.
struct StepWork {
  std::vector<SequenceWork> prompts;
  TokenCount decodes = 0;     // sequences with one new token
  double decodes_cached = 0;  // tokens before those, of all of them
};

/// The time of a step, above 0, and what it moves. Of steps without prompts that differ in
/// `decodes_cached` alone, those between two are interpolated.
using StepTime = std::function<sim::StepUse(const StepWork&)>;

/// When what of a request happened; times since the load's start.
struct ServedTimes {
  Seconds scheduled, first_token, last_token;
  // Tokens of the prompt that were in the cache when it was first scheduled, and after those in
  // RAM.
  TokenCount hit = 0, ram_hit = 0;
  int preemptions = 0;
};

/// A whole load, and what it took of the server.
struct ServingRun {
  std::vector<ServedRequest> load;
  std::vector<ServedTimes> requests;  // of the load, in its order
  std::int64_t steps = 0;
  Seconds busy;                      // in steps
  Seconds with_prompts;              // in those that compute prompts
  Seconds sequences_full;            // in which somebody waits until one of those that run ends
  Seconds cache_full;                // in which somebody waits for room in the cache
  Seconds step_full;                 // in which somebody waits for the next step
  Seconds copy_full;                 // in which all that wait do so for a copy, or steps do
  Seconds end;                       // of the last step
  GapHistogram gaps;                 // between the tokens of answers
  std::int64_t computed_tokens = 0;  // of prompts and answers, again after a preemption
  std::int64_t hit_tokens = 0;       // found in the cache, at every admission
  std::int64_t ram_hit_tokens = 0;   // found in RAM, at every admission
  std::int64_t lost_tokens = 0;      // computed or found, and given up by preemptions
  // Sums over time of requests that wait, requests that run, and blocks (or slots) of the cache in
  // use: request-seconds and block-seconds.
  double waiting = 0, running = 0, blocks = 0;
  std::size_t peak_blocks = 0, peak_running = 0;
  std::size_t free_blocks_at_end = 0;
  Seconds to_ram_busy, to_gpu_busy;  // of the link's directions
  Bytes to_ram, to_gpu;              // copied
  std::size_t beyond_queue = 0;      // requests that found as many waiting as may wait
};

/// Serves all that arrives. `room`: of the KV cache; `ram`: its second tier; `watch`, if
/// given, is told of everything.
/// Errors: a request that does not fit into the cache alone, arrives before the one before it, has
/// no tokens, or continues a later one; a policy that lets nothing run; slots that share a cache
/// which is too small for what they hold together.
Result<ServingRun> serve(Arrivals& arrivals, const SchedulerPolicy& policy, const CacheRoom& room,
                         const StepTime& time, const RamTier& ram = {},
                         ServingWatch* watch = nullptr);
Result<ServingRun> serve(const std::vector<ServedRequest>& load, const SchedulerPolicy& policy,
                         const CacheRoom& room, const StepTime& time, const RamTier& ram = {},
                         ServingWatch* watch = nullptr);

}  // namespace rigcast
