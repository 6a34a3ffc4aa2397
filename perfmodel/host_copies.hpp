#pragma once
// Weights of which host and GPU each have a copy.

#include "core/scenario/placement.hpp"
#include "perfmodel/context/step_context.hpp"

namespace rigcast {

/// Bytes that the host keeps of weights that a GPU has as well: all of them where the GPU computes
/// prompts and the CPU decodes. `head_on`: the device that holds the output matrix.
Bytes host_weight_copies(const StepContext& context, const Placement& placement,
                         DeviceIndex head_on);

/// Bytes that head and embedding share; 0 unless they are one matrix.
Bytes tied_matrix(const StepContext& context);

}  // namespace rigcast
