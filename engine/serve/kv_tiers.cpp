#include "engine/serve/kv_tiers.hpp"

#include <utility>

#include "engine/serve/kv_file.hpp"
#include "engine/serve/restore_measurement.hpp"

namespace rigcast::engine {

Result<KvTiers> make_kv_tiers(BatchExecutor& executor, const SchedulerPolicy& policy) {
  KvTiers out;
  if (!policy.prefix_cache) return out;
  if (policy.disk_cache.value > 0) {
    auto file = KvFile::create(policy.disk_folder, policy.disk_cache, executor.block_bytes());
    if (!file) return file.error();
    out.disk = *std::move(file);
  }
  const bool has_tier = out.disk || executor.limits().host_blocks > 0;
  out.decides = has_tier && policy.restore == KvRestore::kAuto;
  if (!out.decides) return out;
  auto rates = measure_rates(executor, out.disk.get());
  if (!rates) return rates.error();
  out.rates = *std::move(rates);
  return out;
}

}  // namespace rigcast::engine
