#pragma once
// The cache that a server's rules name.

#include <memory>

#include "sim/serving/cache/kv_cache.hpp"

namespace rigcast {

/// The log and the tier must outlive it.
std::unique_ptr<KvCache> make_kv_cache(const SchedulerPolicy& policy, const CacheRoom& room,
                                       const RamTier& ram, const RequestLog& log);

}  // namespace rigcast
