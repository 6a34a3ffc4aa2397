#include "perfmodel/cost/roofline.hpp"

#include <algorithm>

namespace rigcast {

OpCost& OpCost::operator+=(const OpCost& other) {
  overhead += other.overhead;
  serial += other.serial;
  compute += other.compute;
  equivalent_bytes += other.equivalent_bytes;
  bytes += other.bytes;
  return *this;
}

OpCost operator*(OpCost cost, double count) {
  cost.overhead = cost.overhead * count;
  cost.serial = cost.serial * count;
  cost.compute = cost.compute * count;
  cost.equivalent_bytes = cost.equivalent_bytes * count;
  cost.bytes = cost.bytes * count;
  return cost;
}

BytesPerSecond memory_rate(const StepContext& s, DeviceIndex device) {
  const bool vram = device != kHost && !s.rig.unified();
  return vram ? s.rig.gpus[std::size_t(device)].bandwidth.value : s.rig.ram.bandwidth.value;
}

Seconds memory_time(const StepContext& s, Bytes equivalent_bytes, DeviceIndex device) {
  return equivalent_bytes / memory_rate(s, device);
}

bool is_memory_bound(const StepContext& s, const OpCost& cost, DeviceIndex device) {
  return cost.compute <= memory_time(s, cost.equivalent_bytes, device);
}

Seconds time_alone(const StepContext& s, const OpCost& cost, DeviceIndex device) {
  return cost.overhead + std::max(cost.compute, memory_time(s, cost.equivalent_bytes, device));
}

}  // namespace rigcast
