#include "perfmodel/resolve_placement.hpp"

#include "perfmodel/memory.hpp"

namespace rigcast {
namespace {

// True if every GPU that is in use keeps the headroom.
bool fits_on_gpus(const Scenario& s, const Placement& p) {
  const MemoryPlan plan = plan_memory(s, p, s.workload.last_position() + 1);
  return plan.fits_on_gpus(s.settings.headroom) &&
         (!plan.resident_tokens || *plan.resident_tokens >= s.kv.hot_tokens);
}

// The fewest layers whose experts have to be in RAM when all layers are on the GPU: as llama.cpp
// places them itself (common/fit.cpp). nullopt: the rest alone does not fit.
std::optional<Placement> experts_in_ram(const Scenario& s) {
  const int all = s.model.layers + 1;
  int enough = s.model.layers, fewer = -1;
  if (!fits_on_gpus(s, place(s, all, enough))) return std::nullopt;
  while (enough - fewer > 1) {
    const int middle = fewer + (enough - fewer) / 2;
    (fits_on_gpus(s, place(s, all, middle)) ? enough : fewer) = middle;
  }
  return place(s, all, enough);
}

}  // namespace

Placement resolve_placement(const Scenario& s) {
  if (s.placement.gpu_layers) return place(s, *s.placement.gpu_layers);
  if (s.rig.gpus.empty()) return place(s, 0);
  int experts = s.placement.cpu_moe_layers;
  if (s.placement.fits_experts) {
    if (auto placed = experts_in_ram(s)) return *std::move(placed);
    experts = s.model.layers;
  }
  // Fewer layers on the GPUs never need more of their memory, so the first that fit are the most.
  for (int layers = s.model.layers + 1; layers > 0; --layers) {
    Placement p = place(s, layers, experts);
    if (fits_on_gpus(s, p)) return p;
  }
  return place(s, 0);
}

}  // namespace rigcast
