#pragma once
// Loading weights from a file to where they are used: a pipeline of chunks through SSD, page cache,
// staging buffers and PCI-E.

#include <vector>

#include "perfmodel/resource_use.hpp"
#include "perfmodel/step.hpp"
#include "report/trace.hpp"
#include "sim/fidelity.hpp"

namespace rigcast::sim {

struct LoadForecast {
  Seconds total;
  ResourceUse use;
};

/// `trace`, if given, receives the chunks' activities.
LoadForecast forecast_load(const StepContext& context, const Placement& placement, Start start,
                           Fidelity fidelity = Fidelity::kFinal,
                           std::vector<TraceEvent>* trace = nullptr);

}  // namespace rigcast::sim
