#include "perfmodel/pressure/available_memory.hpp"

#include <algorithm>
#include <cmath>

namespace rigcast {
namespace {

// Twice the watermarks' distance above the lowest one (mm/page_alloc.c: the square root of 16 x RAM
// in KiB, and 0.1 % of RAM).
Bytes kept_free(Bytes ram) {
  const double lowest = 1024 * std::sqrt(16 * ram.value / 1024);
  return Bytes{lowest + 2 * std::max(lowest / 4, 0.001 * ram.value)};
}

}  // namespace

Bytes room_of_ram(const StepContext& s) {
  const Bytes ram = s.rig.ram.capacity.value;
  return std::max(Bytes{}, ram - s.rig.ram_reserved.value - kept_free(ram));
}

Bytes swap_with_room(const StepContext& s) {
  if (!s.memory) return {};
  const MemorySettings& m = *s.memory;
  if (m.swap_on == SwapDevice::kDisk) return m.swap;
  const Bytes beside = room_of_ram(s) - m.limit.value_or(room_of_ram(s));
  return std::clamp(beside, Bytes{}, m.swap);
}

}  // namespace rigcast
