#pragma once
// Which device a layer of the host's is computed on while a prompt goes through.

#include "core/model/traffic.hpp"
#include "core/scenario/placement.hpp"
#include "perfmodel/step_context.hpp"

namespace rigcast {

/// Who computes a layer for a batch of a prompt: a layer of the host's may be a GPU's then.
DeviceIndex prefill_device(const StepContext& context, const Placement& placement,
                           const Batch& batch, int layer);

}  // namespace rigcast
