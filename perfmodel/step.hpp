#pragma once
// A step is one pass over the layers: one decoded token, or one ubatch of a prompt. Here it is a
// plain list of operations with what each costs on its device; the simulator turns the list into
// activities that contend and overlap, the closed-form bound sums it by resource.

#include <vector>

#include "core/model/traffic.hpp"
#include "core/scenario/device_memory.hpp"
#include "core/scenario/placement.hpp"
#include "perfmodel/cost/operation.hpp"
#include "perfmodel/step_grouping.hpp"

namespace rigcast {

struct Step {
  std::vector<StepOp> ops;
  Seconds host_work;  // CPU time before the first operation
  Seconds sample;     // CPU time after the last one
  Bytes logits;       // GPU to host, before sampling
  DeviceIndex logits_from = kHost;
};

/// Operations that run beside others: copies ahead of them, or a part on the CPU.
bool overlaps(const Step& step);

/// For every layer, the first one whose operations are the same: of equal tensors, kind and
/// placement.
std::vector<int> alike_layers(const StepContext& context, const Placement& placement);

/// One token of every sequence of the batch.
Step decode_step(const StepContext& context, const Placement& placement, const MemoryPlan& memory,
                 const Batch& batch, StepGrouping grouping = {});

/// Prompt tokens of every sequence of the batch; with logits of their last ones, if `last`.
Step prefill_step(const StepContext& context, const Placement& placement, const MemoryPlan& memory,
                  const Batch& batch, bool last, StepGrouping grouping = {});

/// The scenario's single user: `tokens` new ones after `cached`.
Batch batch_of_one(const Scenario& scenario, TokenCount cached, TokenCount tokens);

/// Its decode of one token when `cached` tokens, itself included, are in the context.
Step decode_step(const Scenario& scenario, const Placement& placement, const MemoryPlan& memory,
                 TokenCount cached, StepGrouping grouping = {});

/// One ubatch of its prompt: `tokens` new ones after `cached`; with logits for the last, if `last`.
Step prefill_step(const Scenario& scenario, const Placement& placement, const MemoryPlan& memory,
                  TokenCount cached, TokenCount tokens, bool last, StepGrouping grouping = {});

// What makes up a step beside its operations, for those who compute costs anew:

/// Lowers what a token's operations take where the CPU's last-level cache keeps what they read.
/// `counts`: how often each of them is there; empty: once.
void apply_last_level_cache(const StepContext& context, std::vector<StepOp>& ops,
                            const std::vector<double>& counts);
/// Time of the host before a step of `tokens` tokens.
Seconds host_time(const StepContext& context, const Placement& placement, Phase phase,
                  TokenCount tokens);
/// Time of choosing a token from each of `rows` rows of logits of this device.
Seconds sample_time(const StepContext& context, DeviceIndex head, TokenCount rows);

/// Tokens outside VRAM while the batch goes through, under the policies that move KV to RAM, in
/// whole blocks.
TokenCount cold_tokens(const StepContext& context, const MemoryPlan& memory, const Batch& batch);

}  // namespace rigcast
