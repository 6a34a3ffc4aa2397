#pragma once
// What an operation asks of its device, and how long it takes there.

#include "core/scenario/placement.hpp"
#include "perfmodel/step_context.hpp"

namespace rigcast {

/// Demand of one operation on its device. The memory side is `charged`: bytes that take as long at
/// the data sheet's bandwidth as the true bytes do at the rate which the kernels reach.
struct OpCost {
  Seconds gap;  // launches or thread meetings, before the work
  Seconds compute;
  Bytes charged;
  Bytes bytes;  // truly moved

  OpCost& operator+=(const OpCost& other);
};

/// Of the memory that the device reads, by the data sheet: VRAM, or the host's.
BytesPerSecond memory_rate(const StepContext& context, DeviceIndex device);

/// The roofline: the gap, then the longer of computing and reading, with nobody else on the memory.
Seconds time_alone(const StepContext& context, const OpCost& cost, DeviceIndex device);

}  // namespace rigcast
