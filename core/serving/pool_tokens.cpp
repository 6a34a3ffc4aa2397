#include "core/serving/pool_tokens.hpp"

#include <algorithm>

namespace rigcast {

PoolTokens pool_tokens(const Scenario& s) {
  const SchedulerPolicy& policy = *s.scheduler;
  const TokenCount most = stated_pool_tokens(policy, s.workload.context);
  const bool in_vram = s.kv.policy == KvPolicy::kVram && !s.rig.gpus.empty() && !s.rig.unified();
  if (policy.pool_tokens > 0 || !(in_vram || s.rig.gpus.empty())) return {most, most};
  const TokenCount block = policy.block_tokens;
  return {std::min(most, (s.workload.context + block - 1) / block * block), most};
}

}  // namespace rigcast
