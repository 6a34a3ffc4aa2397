#pragma once
// Weights of which host and GPU each have a copy.

#include "core/scenario/placement.hpp"
#include "perfmodel/context/step_context.hpp"

namespace rigcast {

/// Bytes that the host keeps of weights that a GPU has as well: all of them where the GPU computes
/// prompts and the CPU decodes. `head_on`: the device that holds the output matrix.
Bytes host_weight_copies(const StepContext& context, const Placement& placement,
                         DeviceIndex head_on);

/// True if the GPU computes on the pages of the mapped file: with Metal, on unified memory. Other
/// backends have buffers of their own there too, into which weights are copied: llama.cpp wraps a
/// mapping only for devices that report `buffer_from_host_ptr` (src/llama-model.cpp). A change that
/// would do so for CUDA was closed unmerged (llama.cpp PR 22120). ROCm and Vulkan are assumed to be
/// like CUDA: Vulkan can wrap host memory (PR 18467), and no source says that it does so here.
bool computes_on_mapped_pages(const StepContext& context);

/// Bytes that head and embedding share; 0 unless they are one matrix.
Bytes tied_matrix(const StepContext& context);

}  // namespace rigcast
