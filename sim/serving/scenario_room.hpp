#pragma once
// What the KV cache of a scenario's server has room for.

#include "core/scenario/scenario.hpp"
#include "perfmodel/memory.hpp"
#include "sim/serving/cache/cache_room.hpp"

namespace rigcast {

/// The room of every device for the KV of its layers.
CacheRoom cache_room_of(const Scenario& scenario, const Placement& placement,
                        const MemoryPlan& memory);

/// Tokens of requests that are as long as the context, of which a window keeps a part: the "GPU KV
/// cache size" of vLLM's log.
TokenCount tokens_of_long_requests(const Scenario& scenario, const CacheRoom& room);

/// Tokens of requests that no window cuts: what the log of vLLM up to 0.20 says.
TokenCount tokens_of_short_requests(const Scenario& scenario, const CacheRoom& room);

}  // namespace rigcast
