#include "core/serving/pool_tokens.hpp"

#include <algorithm>
#include <cmath>

namespace rigcast {

PoolTokens pool_tokens(const Scenario& s) {
  const SchedulerPolicy& policy = *s.scheduler;
  const TokenCount most = stated_pool_tokens(policy, s.workload.context);
  const bool in_vram = s.kv.policy == KvPolicy::kVram && !s.rig.gpus.empty() && !s.rig.unified();
  if (policy.pool_tokens > 0 || !in_vram) return {most, most};
  const Load& load = *s.load;
  double running = double(policy.sequences);
  if (!load.is_open()) running = std::min(running, double(load.users));
  // Lengths of a trace are known when it is read.
  const double mean =
      load.arrival == ArrivalProcess::kTrace ? 0 : mean_prompt(load) + mean_output(load);
  const double wanted = std::max(double(s.workload.context), running * mean);
  const auto block = double(policy.block_tokens);
  return {std::min(most, TokenCount(std::ceil(wanted / block) * block)), most};
}

}  // namespace rigcast
