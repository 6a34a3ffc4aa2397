#pragma once
// The device that computes a host layer during prefill.

#include "core/model/traffic.hpp"
#include "core/scenario/placement.hpp"
#include "perfmodel/context/step_context.hpp"

namespace rigcast {

/// The device that computes `layer` for a batch of a prompt. A GPU may compute a layer whose
/// weights the host keeps.
DeviceIndex prefill_device(const StepContext& context, const Placement& placement,
                           const Batch& batch, int layer);

}  // namespace rigcast
