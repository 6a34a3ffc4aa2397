#pragma once
// The parts of a scenario on which a forecast depends. Both structs refer to a scenario, which must
// outlive them.

#include "core/scenario/scenario.hpp"

namespace rigcast {

/// The inputs of a step's cost other than its batch. The workload is not among them.
struct StepContext {
  // The conversion is implicit: a scenario may be passed wherever the cost of a step is computed.
  StepContext(const Scenario& s)  // NOLINT(google-explicit-constructor)
      : rig(s.rig),
        model(s.model),
        tensors(s.tensors),
        runtime(s.runtime),
        placement(s.placement),
        kv(s.kv),
        settings(s.settings) {}

  /// The correction of this runtime's speed on the rig, from the rig's own runs; nullptr: none.
  const Correction* correction() const { return rig.correction(runtime.id); }

  const Rig& rig;
  const ModelSpec& model;
  const TensorTable& tensors;
  const RuntimeProfile& runtime;
  const PlacementSettings& placement;
  const KvSettings& kv;
  const RuntimeSettings& settings;
};

/// The inputs of a memory plan: those of a step, and the workload that memory is planned for.
struct MemoryContext : StepContext {
  MemoryContext(const Scenario& s)  // NOLINT(google-explicit-constructor)
      : StepContext(s),
        workload(s.workload),
        reads_file(s.model_file || s.workload.start != Start::kResident) {}

  const Workload& workload;
  bool reads_file;  // weights are read from a file
};

}  // namespace rigcast
