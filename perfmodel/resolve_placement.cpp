#include "perfmodel/resolve_placement.hpp"

#include <fmt/format.h>

#include <cmath>

#include "core/text/unit_text.hpp"
#include "perfmodel/memory.hpp"

namespace rigcast {
namespace {

constexpr Bytes kLimitStep = 256_MiB;  // of the GPU's limit: a round number to type

// True if every GPU that is in use keeps the headroom, and the hot window of one sequence. Blocks
// of a server's pool take what layers leave.
bool fits_on_gpus(const Scenario& s, const Placement& p) {
  const MemoryPlan plan = plan_memory(s, p, s.workload.last_position() + 1);
  return plan.fits_on_gpus(s.settings.headroom) &&
         (!plan.resident_tokens || plan.blocks_stay || *plan.resident_tokens >= s.kv.hot_tokens);
}

// All layers on the GPUs in order, each filled before the next one, with the experts of the first
// `cpu_moe_layers` in RAM. nullopt: the GPUs cannot hold them.
std::optional<Placement> fill_gpus(const Scenario& given, int cpu_moe_layers) {
  const int all = given.model.layers + 1;
  const std::size_t last = given.rig.gpus.size() - 1;
  Scenario s = given;
  std::vector<double>& counts = s.placement.tensor_split;
  counts.assign(last + 1, 0.0);
  counts[last] = all;
  for (std::size_t g = 0; g < last; ++g) {
    const int left = int(counts[last]);
    const auto holds = [&](int count) {
      counts[g] = count;
      counts[last] = left - count;
      const Placement p = place(s, all, cpu_moe_layers);
      const MemoryPlan plan = plan_memory(s, p, s.workload.last_position() + 1);
      return plan.devices[g].free() >= s.settings.headroom;
    };
    int most = 0, too_many = left + 1;
    while (too_many - most > 1) {
      const int middle = most + (too_many - most) / 2;
      (holds(middle) ? most : too_many) = middle;
    }
    counts[g] = most;
    counts[last] = left - most;
  }
  Placement p = place(s, all, cpu_moe_layers);
  return fits_on_gpus(s, p) ? std::optional(std::move(p)) : std::nullopt;
}

// The fewest layers whose experts have to be in RAM when all layers are on the GPUs: as llama.cpp
// places them itself (common/fit.cpp), which splits layers by free memory where all of them fit and
// else fills one GPU after the other. nullopt: the rest alone does not fit.
std::optional<Placement> experts_in_ram(const Scenario& s) {
  Placement whole = place(s, s.model.layers + 1, 0);
  if (fits_on_gpus(s, whole)) return whole;
  int enough = s.model.layers, fewer = 0;
  auto best = fill_gpus(s, enough);
  if (!best) return std::nullopt;
  while (enough - fewer > 1) {
    const int middle = fewer + (enough - fewer) / 2;
    auto placed = fill_gpus(s, middle);
    (placed ? enough : fewer) = middle;
    if (placed) best = std::move(placed);
  }
  return best;
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

std::string wired_limit_note(const Scenario& given) {
  if (!given.rig.unified() || given.settings.backend != Backend::kMetal) return "";
  const Bytes pool = given.rig.ram.capacity.value;
  Scenario s = given;
  s.rig.gpus.front().gpu_share.value = 1;
  s.placement = {};
  const Placement whole = place(s, s.model.layers + 1);
  const MemoryPlan plan = plan_memory(s, whole, s.workload.context);
  const DeviceMemory &gpu = plan.devices.front(), &host = plan.devices.back();
  const Bytes needed = gpu.needed() + s.settings.headroom;
  const Bytes allowed = pool * given.rig.gpus.front().gpu_share.value;
  const Bytes limit = kLimitStep * std::ceil(needed / kLimitStep);
  if (needed <= allowed || plan.outside_ram.value > 0 || limit + host.needed() > pool) return "";
  return fmt::format(
      "macOS lets the GPU use {} of {} by default, all of the model needs {}: sudo sysctl "
      "iogpu.wired_limit_mb={:.0f} allows it until the next restart (forecast it with "
      "--set rig.gpu_share={:.3f})",
      text_gib(allowed), text_gib(pool), text_gib(needed), limit / 1_MiB,
      std::ceil(1000 * (limit / pool)) / 1000);
}

}  // namespace rigcast
