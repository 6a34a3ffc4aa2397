#pragma once
// The cache that a server's rules name.

#include <memory>

#include "sim/serving/cache/kv_cache.hpp"

namespace rigcast {

/// `tokens`: of the whole cache. The log and the tier must outlive it.
std::unique_ptr<KvCache> make_kv_cache(const SchedulerPolicy& policy, TokenCount tokens,
                                       const RamTier& ram, const RequestLog& log);

}  // namespace rigcast
