#pragma once
// One operation of a step: what it moves, what that costs, and the copies and handoffs it waits
// for.

#include <optional>

#include "core/model/traffic.hpp"
#include "core/scenario/placement.hpp"
#include "perfmodel/cost/roofline.hpp"
#include "perfmodel/step_context.hpp"
#include "report/activity.hpp"

namespace rigcast {

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
enum class Launches { kNone, kAttention, kRecurrent, kFfn, kMoePart, kHead };

struct StepOp {
  ActivityKind kind = ActivityKind::kFfn;
  int layer = -1;
  DeviceIndex device = kHost;
  // What `cost` is made of:
  OpTraffic traffic;
  TokenCount tokens = 1;
  Launches launches = Launches::kNone;
  bool dequantizes_cache = false;  // cold blocks of another type, before attention reads them
  OpCost cost;
  std::optional<Fetch> fetch;
  std::optional<OpCost> host_part;  // computed on the CPU at the same time, then merged
  Bytes store;                      // GPU to host, off the critical path
  // The hidden state comes from another device:
  double handoffs = 0;
  DeviceIndex from = kHost;
  Bytes handoff_bytes;  // of all of them
};

/// The cost of what one operation moves, for a batch of `tokens`.
OpCost operation_cost(const StepContext& context, DeviceIndex device, const OpTraffic& traffic,
                      TokenCount tokens, Launches launches);
OpCost operation_cost(const StepContext& context, const StepOp& op);
/// Computes cost and copy anew, after figures of the runtime have changed.
void price(const StepContext& context, StepOp& op);
/// What a copy takes, from pinned memory's rate on, by how much of that the runtime reaches.
Bytes charged_weights(const StepContext& context, Bytes bytes, bool mapped);

/// Bytes from a GPU to the host, with nobody else there.
Seconds copy_out_time(const StepContext& context, DeviceIndex gpu, Bytes bytes);
/// The operation's copy, with nobody else on the link, nor on the memory it comes from.
Seconds fetch_time(const StepContext& context, const StepOp& op);

/// Of one operation without its handoff.
Seconds time_alone(const StepContext& context, const StepOp& op);

/// What a handoff before `op` takes. A copy shorter than the wait itself takes no share of the link
/// worth counting: it only makes the wait longer.
struct Handoff {
  Seconds wait;
  bool copies_in = false, copies_out = false;  // longer ones, over the links
};
Handoff handoff_of(const StepContext& context, const StepOp& op);
/// The wait and the copies, with nobody else on the links, nor on the host's memory.
Seconds handoff_time(const StepContext& context, const StepOp& op);

}  // namespace rigcast
