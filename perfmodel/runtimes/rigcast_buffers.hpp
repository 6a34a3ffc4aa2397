#pragma once
// The buffers of the project's own engine: activations and workspaces of the devices that compute,
// and space for weights that are copied to a GPU.

#include "perfmodel/runtimes/runtime_model.hpp"

namespace rigcast {

/// RuntimeModel::compute_buffers; 0 for a host that computes nothing.
Bytes engine_buffers(const MemoryContext& context, const Placement& placement, DeviceIndex device);

/// RuntimeModel::untouched_buffer_bytes: host buffers for batches that a GPU computes in the host's
/// place.
Bytes engine_untouched_buffer_bytes(const MemoryContext& context, const Placement& placement);

/// RuntimeModel::cublas_kernels: some if a ubatch may be longer than the kernels for quantized
/// weights support, or if a batch of the prompt meets float weights.
CublasKernels engine_cublas_kernels(const MemoryContext& context, const Placement& placement);

/// RuntimeModel::add_weight_buffers.
void add_engine_weight_buffers(const MemoryContext& context, const Placement& placement,
                               MemoryPlan& plan);

}  // namespace rigcast
