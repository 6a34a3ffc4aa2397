#pragma once
// The demand of an operation on its device, and the time it takes there.

#include "core/scenario/placement.hpp"
#include "perfmodel/context/step_context.hpp"

namespace rigcast {

/// Demand of one operation on its device. The memory side is `equivalent_bytes`: bytes that take as
/// long at the data sheet's bandwidth as the true bytes take at the rate that the kernels reach.
struct OpCost {
  Seconds overhead;  // before the roofline's work: kernel launches or thread barriers, and `serial`
  Seconds serial;    // of the overhead: work of the device that nothing overlaps
  Seconds compute;
  Bytes equivalent_bytes;
  Bytes bytes;  // bytes that are really moved

  OpCost& operator+=(const OpCost& other);
};

/// The demand of `count` such operations, one after the other.
OpCost operator*(OpCost cost, double count);

/// Bandwidth of the memory that the device reads, by the data sheet: VRAM, or host memory.
BytesPerSecond memory_rate(const StepContext& context, DeviceIndex device);
/// The memory side of the roofline: the time in which the device reads so many equivalent bytes.
Seconds memory_time(const StepContext& context, Bytes equivalent_bytes, DeviceIndex device);

/// True if the memory side takes no less time than the compute side, on an idle machine.
bool is_memory_bound(const StepContext& context, const OpCost& cost, DeviceIndex device);
/// The roofline: overhead + max(compute, memory), on an otherwise idle machine.
Seconds time_alone(const StepContext& context, const OpCost& cost, DeviceIndex device);

}  // namespace rigcast
