#include "core/scenario/device_memory.hpp"

#include <algorithm>

namespace rigcast {

std::string_view name(Tier tier) {
  switch (tier) {
    case Tier::kVram: return "vram";
    case Tier::kRam: return "ram";
  }
  return "";
}

const DeviceMemory* MemoryPlan::shortest() const {
  const DeviceMemory* worst = nullptr;
  for (const DeviceMemory& d : devices)
    if (d.free().value < 0 && (!worst || d.free() < worst->free())) worst = &d;
  return worst;
}

bool MemoryPlan::fits_on_gpus(Bytes headroom) const {
  return std::all_of(devices.begin(), devices.end() - 1, [&](const DeviceMemory& d) {
    return d.free() >= (d.weights.value > 0 ? headroom : Bytes{});
  });
}

bool MemoryPlan::fits() const { return shortest() == nullptr; }

}  // namespace rigcast
