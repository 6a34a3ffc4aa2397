#pragma once
// A step is one pass over the layers: one decoded token, or one ubatch of a prompt. Here it is a
// plain list of operations with what each costs on its device; the simulator turns the list into
// activities that contend and overlap, the closed-form bound sums it by resource.

#include <array>
#include <optional>
#include <vector>

#include "core/activity.hpp"
#include "core/memory.hpp"
#include "core/placement.hpp"
#include "core/traffic.hpp"

namespace rigcast {

/// Demand of one operation on its device. The memory side is `charged`: bytes that take as long at
/// the data sheet's bandwidth as the true bytes do at the rate which the kernels reach.
struct OpCost {
  Seconds gap;  // launches or thread meetings, before the work
  Seconds compute;
  Bytes charged;
  Bytes bytes;  // truly moved

  OpCost& operator+=(const OpCost& other);
};

/// A copy from host memory into the operation's GPU that must end before the operation begins.
struct Fetch {
  ActivityKind kind = ActivityKind::kFetchWeights;
  Bytes bytes;
  Bytes charged;  // at the link's rate from pinned memory
  Seconds start;  // before it carries anything
  bool pageable = false;
  bool mapped = false;  // from the pages of a mapped file
  bool ahead = false;   // may run before the operation's predecessor has ended
};

/// What an operation launches on a GPU: how many kernels is the runtime's to say.
enum class Launches { kNone, kAttention, kRecurrent, kFfn, kHalfMoe, kHead };

struct StepOp {
  ActivityKind kind = ActivityKind::kFfn;
  int layer = -1;
  DeviceIndex device = kHost;
  OpTraffic traffic;  // what `cost` was made of
  Launches launches = Launches::kNone;
  OpCost cost;
  std::optional<Fetch> fetch;
  std::optional<OpCost> host_part;  // computed on the CPU at the same time, then merged
  Bytes store;                      // GPU to host, off the critical path
  // The hidden state comes from another device:
  double handoffs = 0;
  DeviceIndex from = kHost;
  Bytes handoff_bytes;  // of all of them
};

struct Step {
  std::vector<StepOp> ops;
  Seconds host_work;  // CPU time before the first operation
  Seconds sample;     // CPU time after the last one
  Bytes logits;       // GPU to host, before sampling
  DeviceIndex logits_from = kHost;
};

/// The cost of what one operation moves, for a batch of `tokens`.
OpCost operation_cost(const Scenario& scenario, DeviceIndex device, const OpTraffic& traffic,
                      TokenCount tokens, Launches launches);
/// What a copy takes, from pinned memory's rate on, by how much of that the runtime reaches.
Bytes charged_weights(const Scenario& scenario, Bytes bytes, bool mapped);

/// Who computes a layer for a batch of a prompt: a layer of the host's may be a GPU's then.
DeviceIndex prefill_device(const Scenario& scenario, const Placement& placement, BatchShape batch,
                           int layer);

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

/// Neighbouring layers of one class merged into one, up to this many.
struct StepGrouping {
  int layers = 1;
};

/// The decode of one token when `cached` tokens, itself included, are in the context.
Step decode_step(const Scenario& scenario, const Placement& placement, const MemoryPlan& memory,
                 TokenCount cached, StepGrouping grouping = {});

/// One ubatch of a prompt: `tokens` new ones after `cached`; with logits for the last, if `last`.
Step prefill_step(const Scenario& scenario, const Placement& placement, const MemoryPlan& memory,
                  TokenCount cached, TokenCount tokens, bool last, StepGrouping grouping = {});

/// Tokens outside VRAM while the batch goes through, under the policies that move KV to RAM, in
/// whole blocks.
TokenCount cold_tokens(const Scenario& scenario, const MemoryPlan& memory, BatchShape batch);

/// Seconds that the step keeps every resource busy, were each alone; times for `gpu` are of the
/// busiest one. And true bytes by the same routes.
struct ResourceUse {
  std::array<double, kResourceCount> seconds{};
  std::array<double, kResourceCount> bytes{};

  void add(Resource r, double s, double b = 0) {
    seconds[std::size_t(r)] += s;
    bytes[std::size_t(r)] += b;
  }
  ResourceUse& operator+=(const ResourceUse& other);
  double of(Resource r) const { return seconds[std::size_t(r)]; }
};
ResourceUse resource_use(const Scenario& scenario, const Step& step);

/// What a handoff before `op` takes. A copy shorter than the wait itself takes no share of the link
/// worth counting: it only makes the wait longer.
struct Handoff {
  Seconds wait;
  bool copies_in = false, copies_out = false;  // longer ones, over the links
};
Handoff handoff_of(const Scenario& scenario, const StepOp& op);

/// No schedule of the step is faster than its busiest resource.
Seconds lower_bound(const Scenario& scenario, const Step& step);

}  // namespace rigcast
