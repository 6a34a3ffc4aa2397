#pragma once
// What a step brings back into RAM: weights and cache that the host has no room for. A runtime that
// maps its file runs all the same, and so does any where there is swap.

#include "core/model/traffic.hpp"
#include "core/scenario/device_memory.hpp"
#include "core/scenario/placement.hpp"
#include "perfmodel/context/step_context.hpp"
#include "perfmodel/pressure/reclaim.hpp"

namespace rigcast {

/// The host's memory as the pools that compete for it when a step of `batch` runs, beside what the
/// timeline's entry `at` has: without it, its first entry.
HostPools host_pools(const StepContext& context, const Placement& placement,
                     const MemoryPlan& memory, const Batch& batch,
                     const TimelineEntry* at = nullptr);

/// What a step of `batch` reads again. Pages leave the cache in the order in which they
/// were used: where one step uses more than RAM holds, nothing of it is still there when the next
/// one comes, and all is read (measured by the authors on Linux 6.18 with weights of 400 MB: 0
/// bytes a token where 420 MB are free, 408 MB where 380 MB are). Where a step uses less, because
/// tokens choose experts, their share that is in RAM stays: any expert is as likely.
Paging page_in(const StepContext& context, const Placement& placement, const MemoryPlan& memory,
               const Batch& batch);

}  // namespace rigcast
