#pragma once
// What of a scenario a forecast's parts depend on. Both refer to a scenario, which must outlive
// them.

#include "core/scenario/scenario.hpp"

namespace rigcast {

/// What a step's cost depends on, beside the batch that it computes: no workload.
struct StepContext {
  // Not explicit: whoever has a scenario may ask for the cost of a step.
  StepContext(const Scenario& s)  // NOLINT(google-explicit-constructor)
      : rig(s.rig),
        model(s.model),
        tensors(s.tensors),
        runtime(s.runtime),
        placement(s.placement),
        kv(s.kv),
        settings(s.settings) {}

  /// What the rig's own runs say of this runtime's speed; nullptr: nothing.
  const Correction* correction() const { return rig.correction(runtime.id); }

  const Rig& rig;
  const ModelSpec& model;
  const TensorTable& tensors;
  const RuntimeProfile& runtime;
  const PlacementSettings& placement;
  const KvSettings& kv;
  const RuntimeSettings& settings;
};

/// What memory depends on: also the workload that it is planned for.
struct MemoryContext : StepContext {
  MemoryContext(const Scenario& s)  // NOLINT(google-explicit-constructor)
      : StepContext(s),
        workload(s.workload),
        reads_file(s.model_file || s.workload.start != Start::kResident) {}

  const Workload& workload;
  bool reads_file;  // weights come from a file
};

}  // namespace rigcast
