#pragma once
// The assignment problem of a scenario: what every layer takes of time and memory on every device,
// and which orders of devices a placement can say.

#include <vector>

#include "core/scenario/scenario.hpp"
#include "perfmodel/memory.hpp"
#include "planner/assign_layers.hpp"

namespace rigcast::planner {

/// What a station stands for. Layers follow the order host, first GPU, second GPU, ...; those whose
/// FFN (all routed experts, or a dense one) is in RAM come first; the head is on a GPU only where
/// no layer is the host's.
struct LayerStation {
  DeviceIndex device = kHost;
  bool ffn_in_ram = false;
  bool head_on_host = true;
};

struct LayerProblem {
  AssignmentProblem problem;
  std::vector<LayerStation> stations;
};

/// Which of the two has layers and which has none makes no difference.
bool is_like_the_one_before(const Scenario& scenario, DeviceIndex gpu);
/// At the context limit, when all blocks that may have left a GPU.
MemoryPlan least_memory(const Scenario& scenario, const Placement& placement);
/// Bytes of a GPU that are filled before such blocks leave.
double usable_when_paged(const Scenario& scenario, const DeviceMemory& gpu);

/// Of the scenario with its quant mix, KV settings, batches and workload; its placement settings
/// but the decode device do not matter. Seconds are of the prompt and all output tokens, each phase
/// in its middle; GPUs that take turns at a prompt's ubatches are not seen. `headroom`: of each
/// GPU, that nothing takes. `splits_layers`: an FFN may be in RAM by itself.
LayerProblem layer_problem(const Scenario& scenario, Bytes headroom = {},
                           bool splits_layers = true);

/// The settings that say an assignment.
PlacementSettings placement_settings(const Scenario& scenario, const LayerProblem& problem,
                                     const Assignment& assignment);

}  // namespace rigcast::planner
