#pragma once
// Buffers of the project's own engine: vectors and workspaces of the devices that compute, and room
// for weights that are copied to a GPU.

#include "perfmodel/runtimes/runtime_model.hpp"

namespace rigcast {

/// RuntimeModel::compute_buffers; 0 of a host that computes nothing.
Bytes engine_buffers(const MemoryContext& context, const Placement& placement, DeviceIndex device);

/// RuntimeModel::untouched_buffers: those of the host for batches that a GPU computes in its place.
Bytes engine_untouched_buffers(const MemoryContext& context, const Placement& placement);

/// RuntimeModel::loads_cublas: always where a ubatch may be longer than the kernels that read
/// quantized weights take; else where a batch of the prompt meets weights that are floats.
bool engine_loads_cublas(const MemoryContext& context, const Placement& placement);

/// RuntimeModel::add_weight_buffers, and in a prompt's batches room for the caches of the layers
/// whose weights are copied.
void add_engine_weight_buffers(const MemoryContext& context, const Placement& placement,
                               MemoryPlan& plan);

}  // namespace rigcast
