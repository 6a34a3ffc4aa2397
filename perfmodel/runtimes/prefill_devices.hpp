#pragma once
// The devices that compute the host's layers during prefill.

#include "core/model/traffic.hpp"
#include "core/scenario/placement.hpp"
#include "perfmodel/context/step_context.hpp"

namespace rigcast {

/// Where the layers of a prompt's batch are computed. A GPU may compute layers whose weights the
/// host keeps: all of them, or none. Scenario and placement outlive it.
class PrefillDevices {
 public:
  PrefillDevices(const StepContext& context, const Placement& placement, const Batch& batch);

  DeviceIndex of(int layer) const;

 private:
  bool is_copied(int layer) const;
  bool copying_is_faster(const StepContext& context, const Batch& batch) const;

  const Placement& placement_;
  bool unified_;
  bool copies_;
};

}  // namespace rigcast
