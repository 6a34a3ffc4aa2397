#include "sim/serving/cache/make_cache.hpp"

#include "sim/serving/cache/block_cache.hpp"
#include "sim/serving/cache/slot_cache.hpp"

namespace rigcast {

std::unique_ptr<KvCache> make_kv_cache(const SchedulerPolicy& policy, const CacheRoom& room,
                                       const RamTier& ram, const RequestLog& log) {
  if (policy.layout == KvLayout::kSlots)
    return std::make_unique<SlotCache>(policy, room.tokens, ram, log);
  return std::make_unique<BlockCache>(policy, room, ram, log);
}

}  // namespace rigcast
