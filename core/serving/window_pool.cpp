#include "core/serving/window_pool.hpp"

#include <algorithm>

#include "core/scenario/engine_sizes.hpp"

namespace rigcast {
namespace {

bool is_gpu_alone(const Placement& p) {
  return p.head_on != kHost && std::ranges::all_of(p.layers, [](const LayerPlacement& l) {
           return l.weights != kHost && l.experts != kHost && l.decode_on != kHost &&
                  l.decode_experts_on != kHost && l.decode_cache_on != kHost;
         });
}

}  // namespace

TokenCount window_pool_blocks(const WindowPoolAsked& asked) {
  const SchedulerPolicy& policy = asked.policy;
  if (policy.pool != PoolRule::kTokens || policy.ram_cache > Bytes{} || policy.disk_cache > Bytes{})
    return 0;
  if (asked.has_gpus && (asked.kv != KvPolicy::kVram || !is_gpu_alone(asked.placement))) return 0;
  const int checkpoints =
      policy.prefix_cache ? server_checkpoints(asked.model, policy.sequences) : 0;
  return window_pool_blocks(asked.model, std::int64_t(policy.sequences), policy.step_tokens,
                            policy.block_tokens, checkpoints);
}

}  // namespace rigcast
