#include "sim/serving/scenario_room.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "core/model/kv_bytes.hpp"
#include "core/scenario/engine_sizes.hpp"
#include "core/serving/window_pool.hpp"

namespace rigcast {
namespace {

// Adds what states of recurrent layers take, which is beside the pool.
void add_states(const Scenario& s, const Placement& p, std::vector<double>& beside) {
  if (!s.model.recurrent) return;
  const int states = server_states(s.model, s.scheduler->sequences, s.scheduler->prefix_cache);
  for (int l = 0; l < s.model.layers; ++l) {
    const DeviceIndex at = p.layers[std::size_t(l)].decode_on;
    beside[at == kHost ? beside.size() - 1 : std::size_t(at)] += states * state_bytes(s.model, l);
  }
}

// Adds what a pool of windows takes that is apart from the others'.
void add_windows(const Scenario& s, const Placement& p, TokenCount blocks,
                 std::vector<double>& beside) {
  for (int l = 0; l < s.model.layers; ++l) {
    if (s.model.sees_all_tokens(l)) continue;
    const DeviceIndex at = p.layers[std::size_t(l)].kv;
    beside[at == kHost ? beside.size() - 1 : std::size_t(at)] +=
        double(blocks * s.scheduler->block_tokens) * kv_bytes_per_token(s.model, l, s.kv.types);
  }
}

// Tokens for which every device has the KV of those of its layers that are asked for.
template <typename Counts>
double tokens_of_layers(const Scenario& s, const Placement& p, const MemoryPlan& memory,
                        TokenCount window_blocks, const Counts& counts) {
  std::vector<double> per_token(memory.devices.size());
  for (int l = 0; l < s.model.layers; ++l) {
    if (!counts(l)) continue;
    const DeviceIndex at = p.layers[std::size_t(l)].kv;
    const std::size_t device = at == kHost ? per_token.size() - 1 : std::size_t(at);
    const auto& gpus = s.rig.gpus;
    const bool shared = at != kHost && gpus[device].shared;
    per_token[device] +=
        kv_bytes_per_token(s.model, l, s.kv.types) * (shared ? gpus[device].shared->kv_copies : 1);
  }
  // What left the pool for RAM is beside it, also where the pool is in RAM itself.
  std::vector<double> beside(memory.devices.size());
  beside.back() += memory.ram_cache.value;
  add_states(s, p, beside);
  add_windows(s, p, window_blocks, beside);
  double tokens = std::numeric_limits<double>::infinity();
  for (std::size_t d = 0; d < per_token.size(); ++d) {
    const double pool = memory.devices[d].kv.value - beside[d];
    if (per_token[d] > 0) tokens = std::min(tokens, pool / per_token[d]);
  }
  return tokens;
}

// Room for requests that have states or windows beside their blocks.
CacheRoom with_checkpoints(const Scenario& s, CacheRoom room, bool windows_apart = false) {
  if (s.model.recurrent || windows_apart)
    room.checkpoints = std::size_t(server_checkpoints(s.model, s.scheduler->sequences));
  return room;
}

TokenCount in_blocks(double tokens, TokenCount block) {
  return TokenCount(tokens / double(block) + 1e-6) * block;
}

}  // namespace

CacheRoom cache_room_of(const Scenario& s, const Placement& p, const MemoryPlan& memory) {
  const SchedulerPolicy& policy = *s.scheduler;
  if (policy.layout == KvLayout::kSlots) return TokenCount(policy.sequences) * s.workload.context;
  const TokenCount block = policy.block_tokens;
  const WindowBlocks windows = window_blocks(s.model, policy);
  // Of a pool of stated size, what has no room in VRAM is in RAM.
  const bool may_be_in_ram = evicts(s.kv.policy) || s.kv.policy == KvPolicy::kStream;
  if (policy.pool == PoolRule::kTokens && may_be_in_ram)
    return with_checkpoints(s, {stated_pool_tokens(policy, s.workload.context), windows});
  const TokenCount apart =
      window_pool_blocks({s.model, policy, p, s.kv.policy, !s.rig.gpus.empty()});
  if (apart > 0) {
    const double tokens =
        tokens_of_layers(s, p, memory, apart, [&](int l) { return s.model.sees_all_tokens(l); });
    if (tokens > double(apart * block)) return with_checkpoints(s, in_blocks(tokens, block), true);
  }
  const double tokens = tokens_of_layers(
      s, p, memory, 0, [&](int l) { return windows.window <= 0 || s.model.sees_all_tokens(l); });
  return with_checkpoints(s, {in_blocks(tokens / windows.filled, block), windows});
}

TokenCount tokens_of_long_requests(const Scenario& s, const CacheRoom& room) {
  if (room.windows.window <= 0) return room.tokens;
  const TokenCount block = s.scheduler->block_tokens, context = s.workload.context;
  const double blocks =
      std::ceil(double(context) / double(block)) + double(room.windows.of(context, block));
  return TokenCount(double(room.tokens / block) / blocks * double(context));
}

TokenCount tokens_of_short_requests(const Scenario& s, const CacheRoom& room) {
  return in_blocks(double(room.tokens) / (1 + room.windows.per_block), s.scheduler->block_tokens);
}

}  // namespace rigcast
