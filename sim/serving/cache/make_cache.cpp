#include "sim/serving/cache/make_cache.hpp"

#include "sim/serving/cache/block_cache.hpp"
#include "sim/serving/cache/slot_cache.hpp"

namespace rigcast {

std::unique_ptr<KvCache> make_kv_cache(const SchedulerPolicy& policy, TokenCount tokens,
                                       const RamTier& ram, const RequestLog& log) {
  if (policy.layout == KvLayout::kSlots)
    return std::make_unique<SlotCache>(policy, tokens, ram, log);
  return std::make_unique<BlockCache>(policy, tokens, ram, log);
}

}  // namespace rigcast
