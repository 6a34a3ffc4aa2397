#pragma once
// One operation of a step: what it moves, what that costs, and the copies and handoffs it waits
// for.

#include <optional>

#include "core/model/traffic.hpp"
#include "core/scenario/placement.hpp"
#include "perfmodel/context/step_context.hpp"
#include "perfmodel/cost/roofline.hpp"
#include "report/activity.hpp"

namespace rigcast {

/// A copy from host memory into the operation's GPU that must end before the operation begins.
struct Fetch {
  ActivityKind kind = ActivityKind::kFetchWeights;
  Bytes bytes;
  Bytes equivalent_bytes;  // equivalent bytes at the link's rate from pinned memory
  Seconds start;           // latency before the first byte arrives
  bool pageable = false;
  bool mapped = false;        // from the pages of a mapped file
  bool copied_cache = false;  // of a cache in RAM, from pageable memory
  bool early = false;         // may run before the operation's predecessor has ended
};

/// The kind of kernels that an operation launches on a GPU. The runtime profile says how many each
/// kind has.
enum class Launches { kNone, kAttention, kRecurrent, kFfn, kMoePart, kHead };

struct StepOp {
  ActivityKind kind = ActivityKind::kFfn;
  int layer = -1;
  DeviceIndex device = kHost;
  // `cost` is computed from these:
  OpTraffic traffic;
  TokenCount tokens = 1;
  Launches launches = Launches::kNone;
  bool in_graph = false;           // launched in a recorded graph, though of several tokens
  bool dequantizes_cache = false;  // cold blocks have another type and are converted before
                                   // attention reads them
  OpCost cost;
  std::optional<Fetch> fetch;
  std::optional<OpCost> host_part;  // computed on the CPU at the same time, then merged
  Bytes store;                      // GPU to host, off the critical path
  // The handoff of the hidden state from another device:
  double handoffs = 0;
  DeviceIndex from = kHost;
  Bytes handoff_bytes;  // of all handoffs together

  /// True if its copy may run while earlier operations do.
  bool prefetches() const { return fetch && fetch->early; }
};

/// The cost of what one operation moves, for a batch of `tokens`. `in_graph`: as StepOp::in_graph.
OpCost operation_cost(const StepContext& context, DeviceIndex device, const OpTraffic& traffic,
                      TokenCount tokens, Launches launches, bool in_graph = false);
OpCost operation_cost(const StepContext& context, const StepOp& op);
/// Bytes that GPUs which share the operation exchange for it, in each direction, all of them
/// together. The time for it is in the operation's overhead.
Bytes exchanged_bytes(const StepContext& context, const StepOp& op);
/// Recomputes the cost and the copy of `op` after figures of the runtime have changed.
void price(const StepContext& context, StepOp& op);
/// Equivalent bytes of a copy of weights: bytes divided by the share of the pinned-memory rate that
/// the runtime reaches.
Bytes equivalent_weight_bytes(const StepContext& context, Bytes bytes, bool mapped);
/// The same of a cache that is copied from pageable memory, of that memory's rate.
Bytes copied_cache_bytes(const StepContext& context, Bytes bytes);

/// Bytes of pageable memory as ones of pinned memory whose copy takes as long.
Bytes as_pinned(const StepContext& context, DeviceIndex gpu, Bytes pageable);

/// The link's rate from host memory to a GPU, which is lower from pageable memory.
BytesPerSecond h2d_rate(const StepContext& context, DeviceIndex gpu, bool pageable);
/// Time to copy `bytes` from a GPU to the host over an idle link.
Seconds copy_out_time(const StepContext& context, DeviceIndex gpu, Bytes bytes);
/// Time of the operation's copy over an idle link, from memory that nothing else reads.
Seconds fetch_time(const StepContext& context, const StepOp& op);

/// Time of one operation without its handoff, on an otherwise idle machine.
Seconds time_alone(const StepContext& context, const StepOp& op);

/// Time of one handoff between two devices, without the copy of the hidden state.
Seconds crossing_time(const RuntimeProfile& runtime, DeviceIndex from, DeviceIndex to);

/// The time of the handoff before `op`. A copy that is shorter than the wait itself only lengthens
/// the wait; it uses no notable share of the link.
struct Handoff {
  Seconds wait;
  bool copies_in = false, copies_out = false;  // the copy is longer than the wait and uses the link
};
Handoff handoff_of(const StepContext& context, const StepOp& op);
/// Time of the wait and the copies over idle links.
Seconds handoff_time(const StepContext& context, const StepOp& op);

}  // namespace rigcast
