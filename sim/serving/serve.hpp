#pragma once
// Requests that arrive at a server, the steps in which it computes them, and when each of their
// tokens is there.

#include <functional>
#include <limits>
#include <vector>

#include "core/base/error.hpp"
#include "core/base/units.hpp"
#include "core/runtime/scheduler_policy.hpp"
#include "load/arrivals.hpp"
#include "report/serving/served_load.hpp"
#include "sim/machine/copy_links.hpp"
#include "sim/serving/cache/cache_room.hpp"
#include "sim/serving/cache/ram_tier.hpp"
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
