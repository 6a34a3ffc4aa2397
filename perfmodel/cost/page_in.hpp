#pragma once
// Weights that RAM cannot hold. A runtime that maps its file runs all the same: what a step needs
// and the page cache has dropped is read from the disk again.

#include "core/scenario/device_memory.hpp"
#include "core/scenario/placement.hpp"
#include "perfmodel/context/step_context.hpp"

namespace rigcast {

/// Bytes that a step of `tokens` tokens reads from the disk. Pages leave the cache in the order in
/// which they were used: where one step uses more than RAM holds, nothing of it is still there when
/// the next one comes, and all is read (measured by the authors on Linux 6.18 with weights of
/// 400 MB: 0 bytes a token where 420 MB are free, 408 MB where 380 MB are). Where a step uses less,
/// because tokens choose experts, their share that is in RAM stays: any expert is as likely.
Bytes page_in(const StepContext& context, const Placement& placement, const MemoryPlan& memory,
              TokenCount tokens);

/// The rate of reading the model's file from the disk.
BytesPerSecond file_read_rate(const StepContext& context);

}  // namespace rigcast
