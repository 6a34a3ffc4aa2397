#pragma once
// How many tokens the KV cache of a server has.

#include "core/base/units.hpp"
#include "core/scenario/scenario.hpp"

namespace rigcast {

/// Tokens of the pool of rigcast's server, in whole blocks: as many as the memory of the GPUs that
/// hold it has room for beside layers, from `least` to `most`. Layers are placed beside the least.
struct PoolTokens {
  TokenCount least = 0, most = 0;
};
/// What is stated; else, at most, the context of all that may run, and of a pool in VRAM at least
/// that of one request. However many users there are, layers come first: every step waits for
/// layers in RAM, while a full pool lets some requests wait. Requires a scenario with a load, and a
/// server with PoolRule::kTokens.
PoolTokens pool_tokens(const Scenario& scenario);

}  // namespace rigcast
