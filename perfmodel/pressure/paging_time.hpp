#pragma once
// How long it takes to bring back what memory has no room for.

#include "perfmodel/context/step_context.hpp"
#include "perfmodel/pressure/reclaim.hpp"

namespace rigcast {

/// The rate of reading the model's file from the disk, beside other programs that read `stream`
/// from it: a disk serves both alike, so they take no more than half.
BytesPerSecond file_read_rate(const StepContext& context, BytesPerSecond stream = {});

/// The time of bringing `bytes` back from the scenario's swap device, fault by fault.
Seconds swap_in_time(const StepContext& context, Bytes bytes, BytesPerSecond stream = {});

/// The time of all that a step reads again, one after the other.
Seconds page_in_time(const StepContext& context, const Paging& paging);

}  // namespace rigcast
