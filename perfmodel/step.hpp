#pragma once
// A step is one pass over the layers: one decoded token, or one ubatch of a prompt. Here it is a
// plain list of operations with what each costs on its device; the simulator turns the list into
// activities that contend and overlap, the closed-form bound sums it by resource.

#include <vector>

#include "core/model/traffic.hpp"
#include "core/scenario/device_memory.hpp"
#include "core/scenario/placement.hpp"
#include "perfmodel/operation.hpp"
#include "perfmodel/step_grouping.hpp"

namespace rigcast {

struct Step {
  std::vector<StepOp> ops;
  Seconds host_work;  // CPU time before the first operation
  Seconds sample;     // CPU time after the last one
  Bytes logits;       // GPU to host, before sampling
  DeviceIndex logits_from = kHost;
};

/// The operations of one layer, without handoffs, and of the output head.
std::vector<StepOp> layer_operations(const Scenario& scenario, const Placement& placement,
                                     const MemoryPlan& memory, BatchShape batch, Phase phase,
                                     int layer);
StepOp head_operation(const Scenario& scenario, const Placement& placement,
                      const MemoryPlan& memory, BatchShape batch, Phase phase, DeviceIndex device,
                      TokenCount rows);

/// For every layer, the first one whose operations are the same: of equal tensors, kind and
/// placement.
std::vector<int> alike_layers(const Scenario& scenario, const Placement& placement);

/// The decode of one token when `cached` tokens, itself included, are in the context.
Step decode_step(const Scenario& scenario, const Placement& placement, const MemoryPlan& memory,
                 TokenCount cached, StepGrouping grouping = {});

/// One ubatch of a prompt: `tokens` new ones after `cached`; with logits for the last, if `last`.
Step prefill_step(const Scenario& scenario, const Placement& placement, const MemoryPlan& memory,
                  TokenCount cached, TokenCount tokens, bool last, StepGrouping grouping = {});

/// Tokens outside VRAM while the batch goes through, under the policies that move KV to RAM, in
/// whole blocks.
TokenCount cold_tokens(const Scenario& scenario, const MemoryPlan& memory, BatchShape batch);

}  // namespace rigcast
