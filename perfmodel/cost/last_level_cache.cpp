#include "perfmodel/cost/last_level_cache.hpp"

#include <algorithm>

namespace rigcast {

// LLC hit rate: the CPU reads the same bytes in the same order for every token. The rate is 1 up to
// the size of the last-level cache, and falls to 0 at `llc_capacity_factor` times that size.
void apply_last_level_cache(const StepContext& s, std::vector<StepOp>& ops,
                            const std::vector<double>& counts) {
  const CpuEfficiency& e = s.runtime.cpu;
  if (!s.rig.cpu.last_level || !e.llc_capacity_factor) return;
  Bytes read;
  for (std::size_t i = 0; i < ops.size(); ++i) {
    const double count = counts.empty() ? 1.0 : counts[i];
    if (ops[i].device == kHost) read += ops[i].cost.bytes * count;
    if (ops[i].host_part) read += ops[i].host_part->bytes * count;
  }
  const double sizes = read / s.rig.cpu.last_level->value, most = e.llc_capacity_factor->value;
  const double kept = std::clamp((most - sizes) / (most - 1.0), 0.0, 1.0);
  const auto left = [&](const std::optional<Sourced<double>>& speed) {
    return speed ? 1.0 - kept * (1.0 - 1.0 / speed->value) : 1.0;
  };
  const double of_cache = left(e.llc_kv_speedup), of_weights = left(e.llc_weight_speedup);
  for (StepOp& op : ops) {
    if (op.device == kHost)
      op.cost.equivalent_bytes *= op.kind == ActivityKind::kCacheAttention ? of_cache : of_weights;
    if (op.host_part) op.host_part->equivalent_bytes *= of_cache;
  }
}

}  // namespace rigcast
