#pragma once
// Which device a layer of the host's is computed on while a prompt goes through.

#include "core/model/traffic.hpp"
#include "core/scenario/placement.hpp"

namespace rigcast {

/// Who computes a layer for a batch of a prompt: a layer of the host's may be a GPU's then.
DeviceIndex prefill_device(const Scenario& scenario, const Placement& placement, BatchShape batch,
                           int layer);

}  // namespace rigcast
