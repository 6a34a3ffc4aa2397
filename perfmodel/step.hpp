#pragma once
// A step is one pass over the layers: one decoded token, or one ubatch of a prompt. It is a plain
// list of operations with the cost of each on its device. The simulator turns the list into
// activities that contend and overlap; the closed form sums it by resource.

#include <vector>

#include "core/model/traffic.hpp"
#include "core/scenario/device_memory.hpp"
#include "core/scenario/placement.hpp"
#include "perfmodel/cost/operation.hpp"
#include "perfmodel/pressure/reclaim.hpp"
#include "perfmodel/step_grouping.hpp"

namespace rigcast {

struct Step {
  std::vector<StepOp> ops;
  Seconds host_work;  // CPU time before the first operation
  Seconds beside;     // CPU time for the step, while the GPU still computes the one before it
  Paging page_in;     // what RAM does not hold of the host's weights and cache
  Seconds sample;     // CPU time after the last one
  Bytes logits;       // GPU to host, before sampling
  DeviceIndex logits_from = kHost;
};

/// True if copies are prefetched, or the CPU computes a part, while other operations run.
bool overlaps(const Step& step);

/// The step that decodes one token of every sequence of the batch.
Step decode_step(const StepContext& context, const Placement& placement, const MemoryPlan& memory,
                 const Batch& batch, StepGrouping grouping = {});

/// The step that computes prompt tokens of every sequence of the batch; with logits of their last
/// tokens if `last`.
Step prefill_step(const StepContext& context, const Placement& placement, const MemoryPlan& memory,
                  const Batch& batch, bool last, StepGrouping grouping = {});

// The parts of a step other than its operations, for callers that recompute costs:

/// True if the host cannot prepare the step while the one before is computed: it is a request's
/// first, or a token, or the host computes itself.
bool waits_for_host(const std::vector<StepOp>& ops, const Batch& batch, Phase phase);
/// Time in which the host launches the GPUs' kernels. `counts`: how often each operation runs;
/// empty: once.
Seconds launch_time(const std::vector<StepOp>& ops, const std::vector<double>& counts);
/// Time of the thread that writes a step's mask while the GPUs compute: it prepares the step and
/// launches its kernels as well. Zero without a mask, as nothing else of the thread's work is
/// longer than the GPUs'.
Seconds time_beside_gpus(Seconds mask, Seconds host_work, const std::vector<StepOp>& ops,
                         const std::vector<double>& counts);
/// Time of the host's work before a step of `tokens` tokens of `sequences` sequences: of the
/// program that computes, and of its server's scheduler.
Seconds host_time(const StepContext& context, const Placement& placement, Phase phase,
                  TokenCount tokens, TokenCount sequences);
/// What a step with tokens of a prompt takes longer on the host if logits are needed of it.
Seconds prompt_start(const StepContext& context);
/// Time of sampling a token from each of `rows` rows of logits on device `head`.
Seconds sample_time(const StepContext& context, DeviceIndex head, TokenCount rows);

/// Tokens whose KV is outside VRAM during the step, in whole blocks, under the policies that move
/// KV to RAM.
TokenCount cold_tokens(const StepContext& context, const MemoryPlan& memory, const Batch& batch);

}  // namespace rigcast
