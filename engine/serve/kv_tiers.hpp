#pragma once
// What a server's rules ask for behind the executor's pools: a file on disk, and the rates by which
// they decide what comes back.

#include <memory>

#include "core/base/error.hpp"
#include "core/runtime/scheduler_policy.hpp"
#include "engine/run/batch_executor.hpp"
#include "engine/serve/block_store.hpp"
#include "engine/serve/restore_rates.hpp"

namespace rigcast::engine {

struct KvTiers {
  std::unique_ptr<BlockStore> disk{};  // nullptr: none
  RestoreRates rates{};
  bool decides = false;  // by rates, between restoring and computing
};

/// Rates are measured where the rules decide by them and there is a tier. Errors: those of
/// KvFile::create() and measure_rates(). Throws what the executor throws.
Result<KvTiers> make_kv_tiers(BatchExecutor& executor, const SchedulerPolicy& policy);

}  // namespace rigcast::engine
