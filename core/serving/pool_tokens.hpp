#pragma once
// How many tokens the KV cache of a server has.

#include "core/base/units.hpp"
#include "core/scenario/scenario.hpp"

namespace rigcast {

/// Tokens of the pool of rigcast's server, in whole blocks, from `least` to `most`: what GPUs have
/// room for beside layers, which are placed beside the least; without GPUs half of what is left.
struct PoolTokens {
  TokenCount least = 0, most = 0;
};
/// What is stated; else, at most, the context of all that may run, and of a pool in VRAM, or where
/// there is no GPU, at least that of one request. Layers come first, however many users there are:
/// every step waits for layers in RAM, while a full pool lets some requests wait. Requires a
/// scenario with a load, and a server with PoolRule::kTokens.
PoolTokens pool_tokens(const Scenario& scenario);

}  // namespace rigcast
