#include "perfmodel/resolve_placement.hpp"

#include <algorithm>

#include "perfmodel/memory.hpp"

namespace rigcast {

Placement resolve_placement(const Scenario& s) {
  const int most = s.model.layers + 1;
  if (s.placement.gpu_layers) return place(s, *s.placement.gpu_layers);
  if (s.rig.gpus.empty()) return place(s, 0);
  // Fewer layers on the GPUs never need more of their memory, so the first that fit are the most.
  for (int layers = most; layers > 0; --layers) {
    Placement p = place(s, layers);
    MemoryPlan plan = plan_memory(s, p, s.workload.last_position() + 1);
    const bool fits = std::all_of(plan.devices.begin(), plan.devices.end() - 1,
                                  [](const DeviceMemory& d) { return d.free().value >= 0; });
    const bool hot_fits = !plan.resident_tokens || *plan.resident_tokens >= s.kv.hot_tokens;
    if (fits && hot_fits) return p;
  }
  return place(s, 0);
}

}  // namespace rigcast
