#pragma once
// Rates of copies and of prompts on this machine, measured before anything is served.

#include "core/base/error.hpp"
#include "engine/run/batch_executor.hpp"
#include "engine/serve/block_store.hpp"
#include "engine/serve/restore_rates.hpp"

namespace rigcast::engine {

/// What decides between restoring and computing is measured on the executor's pools, whose
/// contents are lost, for some tenths of a second each: copies from the host's pool if there is
/// one, from `store` unless it is nullptr, and prompts of as many tokens as take a fourth of a
/// second, or of a whole step. Errors: the store fails (kMachine). Throws what the executor throws.
Result<RestoreRates> measure_rates(BatchExecutor& executor, BlockStore* store);

}  // namespace rigcast::engine
