#include "perfmodel/cost/roofline.hpp"

#include <algorithm>

namespace rigcast {

OpCost& OpCost::operator+=(const OpCost& other) {
  gap += other.gap;
  compute += other.compute;
  charged += other.charged;
  bytes += other.bytes;
  return *this;
}

BytesPerSecond memory_rate(const StepContext& s, DeviceIndex device) {
  const bool vram = device != kHost && !s.rig.unified();
  return vram ? s.rig.gpus[std::size_t(device)].bandwidth.value : s.rig.ram.bandwidth.value;
}

Seconds time_alone(const StepContext& s, const OpCost& cost, DeviceIndex device) {
  return cost.gap + std::max(cost.compute, cost.charged / memory_rate(s, device));
}

}  // namespace rigcast
