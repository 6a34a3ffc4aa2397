#include "sim/step_graph.hpp"

#include <algorithm>
#include <utility>

#include "perfmodel/overlap.hpp"
#include "perfmodel/pressure/paging_time.hpp"

namespace rigcast::sim {
namespace {

// The largest number of consecutive operations on one device that become one activity: enough to
// halve the time of a simulation, few enough that contention with copies stays the same within
// 0.1 %.
constexpr int kMaxRunOperations = 8;
// An overhead below this share of the operation's time needs no activity of its own.
constexpr double kShortOverhead = 0.03;

// True of machines whose nodes the platform has; others' are one link.
bool has_nodes(const MemoryNodes& nodes) {
  return nodes.count > 1 && nodes.count <= kMaxMemoryNodes;
}

}  // namespace

StepGraph::StepGraph(const StepContext& context, bool overlaps)
    : s_(context),
      overlaps_(overlaps),
      nodes_(memory_nodes(context, context.rig.ram.bandwidth.value)),
      node_bytes_(read_rate(nodes_, policy_in_effect(context)) / context.rig.ram.bandwidth.value) {}

void StepGraph::run() {
  const bool several = overlaps_ && has_nodes(nodes_);
  if (several) set_memory_nodes(nodes_.count, nodes_.local, nodes_.remote);
  graph_.run();
  if (several) set_machine(s_.rig);
}

NodeId StepGraph::chain(NodeId before, NodeId node) {
  graph_.order(before, node);
  return node;
}

NodeId StepGraph::join(NodeId a, NodeId b) {
  const NodeId both = graph_.join();
  graph_.order(a, both);
  graph_.order(b, both);
  return both;
}

void StepGraph::label(NodeId first, NodeId last, ActivityKind kind, const StepOp& op,
                      double bytes) {
  if (!recording_ || first == kNoNode) return;
  TraceEvent e;
  e.track = track_of(kind, op.device);
  e.phase = phase_;
  e.kind = kind;
  e.layer = op.layer;
  e.token = token_;
  e.bytes = bytes;
  spans_.push_back({first, last, std::move(e)});
}

NodeId StepGraph::append(const Step& step, Phase phase, TokenCount token) {
  phase_ = phase;
  token_ = token;
  const StepOp host;
  NodeId at = last_;
  const NodeId beside =
      step.beside.value > 0 ? chain(last_, graph_.work(Worker::kDelay, 0, step.beside)) : kNoNode;
  if (step.host_work.value > 0) {
    at = chain(at, graph_.work(Worker::kDelay, 0, step.host_work));
    label(at, at, ActivityKind::kHostWork, host, 0);
  }
  at = page_in(step.page_in, at);
  for (const StepOp& op : step.ops) {
    const bool joins = can_merge(op);
    const bool full =
        overlaps_ && (op.device != run_.device || run_.operations == kMaxRunOperations);
    if (!joins || full) at = finish_run(at);
    if (joins)
      extend(op);
    else
      at = operation(op, at);
  }
  at = finish_run(at);
  if (step.logits.value > 0)
    at = chain(at, graph_.flow(Route::kGpuToHost, step.logits_from, step.logits));
  if (step.sample.value > 0) {
    at = chain(at, graph_.work(Worker::kDelay, 0, step.sample));
    label(at, at, ActivityKind::kSample, host, 0);
  }
  if (beside != kNoNode) at = join(at, beside);
  last_ = at;
  return at;
}

// What is read again is read before it is used.
NodeId StepGraph::page_in(const Paging& paging, NodeId at) {
  const StepOp host;
  if (paging.files.value > 0) {
    const double slower = s_.rig.ssd.sequential_read.value / file_read_rate(s_, paging.stream);
    at = chain(at, graph_.flow(Route::kSsdToRam, 0, paging.files * slower));
    label(at, at, ActivityKind::kReadFile, host, paging.files.value);
  }
  if (paging.swapped.value <= 0) return at;
  const Seconds time = swap_in_time(s_, paging.swapped, paging.stream);
  at = chain(at, s_.memory->swap_on == SwapDevice::kZram
                     ? graph_.work(Worker::kDelay, 0, time)
                     : graph_.flow(Route::kSsdToRam, 0, s_.rig.ssd.sequential_read.value * time));
  label(at, at, ActivityKind::kSwapIn, host, paging.swapped.value);
  return at;
}

NodeId StepGraph::operation(const StepOp& op, NodeId entry) {
  const NodeId ready = op.handoffs > 0 ? handoff(op, entry) : entry;
  const NodeId fetched = op.fetch ? fetch(op, ready) : kNoNode;
  NodeId begin = ready;
  if (fetched != kNoNode) begin = ready != kNoNode ? join(ready, fetched) : fetched;
  const auto first = NodeId(graph_.size());
  NodeId done = op.device == kHost ? cpu_part(op.cost, begin) : gpu_part(op, begin);
  // The staging buffer is free once the GPU's part ends, whatever the host still computes.
  if (fetched != kNoNode) engines_[std::size_t(op.device)].consumers.push_back(done);
  if (op.host_part) {
    const NodeId host = cpu_part(*op.host_part, ready);
    done = join(done, host);
  }
  if (op.tokens > 0) label(first, done, op.kind, op, op.cost.bytes.value);
  if (op.store.value > 0) store(op, done);
  return done;
}

// True if `op` can be merged with its neighbours into one activity. Without overlap, times add up
// exactly; with copies beside it, only operations bound by the shared memory may be merged.
bool StepGraph::can_merge(const StepOp& op) const {
  if (recording_ || op.fetch || op.host_part || op.store.value > 0) return false;
  if (!overlaps_) {
    const Handoff h = handoff_of(s_, op);
    return !h.copies_in && !h.copies_out;
  }
  return op.handoffs == 0 && is_memory_bound(s_, op.cost, op.device);
}

void StepGraph::extend(const StepOp& op) {
  run_.device = op.device;
  ++run_.operations;
  run_.overhead += op.cost.overhead;
  run_.equivalent_bytes += op.cost.equivalent_bytes;
  OpCost after_handoff = op.cost;
  after_handoff.overhead += handoff_of(s_, op).wait;
  run_.alone += time_alone(s_, after_handoff, op.device);
}

NodeId StepGraph::finish_run(NodeId entry) {
  if (run_.operations == 0) return entry;
  const Run run = std::exchange(run_, Run{});
  if (overlaps_) return read_after_overhead(run.device, run.overhead, run.equivalent_bytes, entry);
  const Worker worker = run.device == kHost ? Worker::kCpu : Worker::kGpu;
  return chain(entry, graph_.work(worker, std::max(0, run.device), run.alone));
}

NodeId StepGraph::read_after_overhead(DeviceIndex device, Seconds overhead, Bytes equivalent_bytes,
                                      NodeId entry) {
  const bool host = device == kHost;
  NodeId begin = entry;
  // A short overhead counts as additional bytes to read: copies beside it use a few per cent of
  // VRAM bandwidth.
  if (!host && !s_.rig.unified() &&
      overhead < memory_time(s_, equivalent_bytes, device) * kShortOverhead) {
    equivalent_bytes += memory_rate(s_, device) * overhead;
  } else if (overhead.value > 0) {
    begin = chain(entry, host ? graph_.work(Worker::kDelay, 0, overhead)
                              : graph_.work(Worker::kGpu, device, overhead));
  }
  if (host) return host_read(equivalent_bytes, begin);
  return chain(begin, graph_.flow(Route::kVram, std::max(0, device), equivalent_bytes));
}

NodeId StepGraph::host_read(Bytes equivalent_bytes, NodeId entry) {
  if (!has_nodes(nodes_)) return chain(entry, graph_.flow(Route::kRam, 0, equivalent_bytes));
  return graph_.read_nodes(policy_in_effect(s_), nodes_.count, equivalent_bytes * node_bytes_,
                           entry);
}

NodeId StepGraph::gpu_part(const StepOp& op, NodeId entry) {
  const int gpu = op.device;
  if (!overlaps_) return chain(entry, graph_.work(Worker::kGpu, gpu, time_alone(s_, op.cost, gpu)));
  // Contention can only slow the memory side, so a shorter compute side cannot bind.
  if (is_memory_bound(s_, op.cost, gpu))
    return read_after_overhead(gpu, op.cost.overhead, op.cost.equivalent_bytes, entry);

  NodeId begin = entry;
  if (op.cost.overhead.value > 0)
    begin = chain(entry, graph_.work(Worker::kGpu, gpu, op.cost.overhead));
  const NodeId read = chain(begin, graph_.flow(Route::kVram, gpu, op.cost.equivalent_bytes));
  const NodeId work = chain(begin, graph_.work(Worker::kGpu, gpu, op.cost.compute));
  return join(read, work);
}

NodeId StepGraph::cpu_part(const OpCost& cost, NodeId entry) {
  if (!overlaps_) return chain(entry, graph_.work(Worker::kCpu, 0, time_alone(s_, cost, kHost)));
  NodeId begin = entry;
  if (cost.overhead.value > 0 || entry == kNoNode)
    begin = chain(entry, graph_.work(Worker::kDelay, 0, cost.overhead));
  const NodeId read = host_read(cost.equivalent_bytes, begin);
  if (is_memory_bound(s_, cost, kHost)) return read;
  const NodeId work = chain(begin, graph_.work(Worker::kCpu, 0, cost.compute));
  return join(read, work);
}

NodeId StepGraph::handoff(const StepOp& op, NodeId entry) {
  const Handoff times = handoff_of(s_, op);
  const auto first = NodeId(graph_.size());
  NodeId at = entry;
  if (times.copies_out) at = chain(at, graph_.flow(Route::kGpuToHost, op.from, op.handoff_bytes));
  if (times.copies_in) at = chain(at, graph_.flow(Route::kHostToGpu, op.device, op.handoff_bytes));
  at = chain(at, graph_.work(Worker::kDelay, 0, times.wait));
  label(first, at, ActivityKind::kHandoff, op, op.handoff_bytes.value);
  return at;
}

NodeId StepGraph::fetch(const StepOp& op, NodeId entry) {
  CopyEngines& engine = engines_[std::size_t(op.device)];
  const Route route = op.fetch->pageable ? Route::kHostToGpuPageable : Route::kHostToGpu;
  const bool late = op.fetch->start.value > 0;
  const NodeId copy = graph_.flow(route, op.device, op.fetch->equivalent_bytes);
  const NodeId begin = late ? graph_.work(Worker::kDelay, 0, op.fetch->start) : copy;
  if (late) graph_.order(begin, copy);
  graph_.order(engine.in, begin);
  engine.in = copy;
  if (op.fetch->early) {
    // A copy fills the buffer of the copy that came so many buffers before it.
    const auto buffers = std::size_t(s_.runtime.decode.prefetch_buffers());
    while (engine.consumers.size() > buffers) engine.consumers.pop_front();
    if (engine.consumers.size() == buffers) graph_.order(engine.consumers.front(), begin);
  } else {
    graph_.order(entry, begin);
  }
  label(copy, copy, op.fetch->kind, op, op.fetch->bytes.value);
  return copy;
}

void StepGraph::store(const StepOp& op, NodeId done) {
  CopyEngines& engine = engines_[std::size_t(op.device)];
  const NodeId copy = graph_.flow(Route::kGpuToHost, op.device, op.store);
  graph_.order(done, copy);
  graph_.order(engine.out, copy);
  engine.out = copy;
  label(copy, copy, ActivityKind::kStoreKv, op, op.store.value);
}

std::vector<TraceEvent> StepGraph::events(double offset_s) const {
  std::vector<TraceEvent> out;
  for (const LabelledSpan& span : spans_) {
    TraceEvent e = span.label;
    e.start_s = offset_s + graph_.start(span.first).value;
    e.finish_s = offset_s + graph_.finish(span.last).value;
    out.push_back(std::move(e));
  }
  return out;
}

void StepGraph::clear() {
  graph_.clear();
  spans_.clear();
  engines_ = {};
  run_ = {};
  last_ = kNoNode;
}

}  // namespace rigcast::sim
