#pragma once
// The assignment problem of a scenario: the time and memory of every layer on every device, and the
// orders of devices that a placement can express.

#include <vector>

#include "core/scenario/scenario.hpp"
#include "perfmodel/memory.hpp"
#include "planner/assign_layers.hpp"

namespace rigcast::planner {

/// The meaning of a place. Layers are in the order host, first GPU, second GPU, ...; layers whose
/// FFN (all routed experts, or a dense one) is in RAM come first. The head is on a GPU if any layer
/// is, or only if no layer is on the host: as the runtime has it (head_is_first()).
struct LayerLocation {
  DeviceIndex device = kHost;
  bool ffn_in_ram = false;
  bool head_on_host = true;
};

struct LayerProblem {
  AssignmentProblem problem;
  std::vector<LayerLocation> locations;
};

/// True if `gpu` and the one before it are identical, so that it makes no difference which of them
/// has layers.
bool same_as_previous_gpu(const Rig& rig, DeviceIndex gpu);
/// Memory at the context limit, when all blocks that may be evicted have been.
MemoryPlan memory_at_context_limit(const Scenario& scenario, const Placement& placement);
/// Bytes of a GPU that are filled before blocks are evicted.
double usable_when_paged(const StepContext& context, const DeviceMemory& gpu);

/// What the weights of the host may occupy.
enum class HostWeights {
  kInRam,        // no more than RAM holds
  kInRamOrDisk,  // any size, if the runtime maps its file: the rest is read again in every step
};

/// True if what RAM does not hold is read again in every step: weights from the mapped file, or
/// cache and copies from swap.
bool may_read_from_disk(const Scenario& scenario);
/// The scenario without that choice.
Scenario in_ram_only(const Scenario& scenario);

/// The problem for the scenario's quant mix, KV settings, batches and workload; of its placement
/// settings only the decode device matters. Seconds cover the prompt and all output tokens, each
/// phase at its middle; pipelining of a prompt over several GPUs is not modelled. `splits_layers`:
/// an FFN may be in RAM by itself. With weights on the disk every host layer costs what reading it
/// takes, although RAM may hold all of them once enough layers are on GPUs.
LayerProblem layer_problem(const Scenario& scenario, bool splits_layers = true,
                           HostWeights host_weights = HostWeights::kInRam);

/// The placement settings that express an assignment.
PlacementSettings placement_settings(const StepContext& context, const LayerProblem& problem,
                                     const Assignment& assignment);

}  // namespace rigcast::planner
