#pragma once
// Weights that are there twice.

#include "core/scenario/placement.hpp"
#include "perfmodel/step_context.hpp"

namespace rigcast {

/// What the host keeps of weights that a GPU has, too: all of them where prompts are computed on
/// the GPU and tokens on the CPU. `head_on`: the device that holds the output matrix.
Bytes host_copies(const StepContext& context, const Placement& placement, DeviceIndex head_on);

/// Bytes that head and embedding have in common; 0 unless they are one matrix.
Bytes tied_matrix(const StepContext& context);

}  // namespace rigcast
