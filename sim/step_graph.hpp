#pragma once
// Turns steps into activities: operations in order on their devices, prefetched copies on the copy
// engines, staging buffers that are freed as operations end.

#include <array>
#include <deque>
#include <vector>

#include "perfmodel/context/memory_nodes.hpp"
#include "perfmodel/step.hpp"
#include "report/trace.hpp"
#include "sim/machine/graph.hpp"

namespace rigcast::sim {

class StepGraph {
 public:
  /// `overlaps`: copies overlap operations, so the two sides of a roofline are separate activities
  /// and contend. Without overlap every operation is alone on the machine, and one activity is
  /// exact.
  StepGraph(const StepContext& context, bool overlaps);

  /// Appends a step that begins when the one before has ended. `token` labels it in a trace.
  /// Returns the node at which its token id is known.
  NodeId append(const Step& step, Phase phase, TokenCount token);

  void run();
  Seconds finish(NodeId node) const { return graph_.finish(node); }
  void clear();

  /// Keeps what is needed for events(); costs memory.
  void record(bool on) { recording_ = on; }
  /// After run(): the activities with their times shifted by `offset_s`.
  std::vector<TraceEvent> events(double offset_s) const;

 private:
  struct LabelledSpan {
    NodeId first, last;
    TraceEvent label;
  };
  struct CopyEngines {
    NodeId in = kNoNode;           // last copy towards the GPU
    NodeId out = kNoNode;          // last copy from it
    std::deque<NodeId> consumers;  // operations that use the latest fetches, newest last
  };

  // Consecutive operations on one device with nothing beside or between them.
  struct Run {
    DeviceIndex device = kHost;
    int operations = 0;
    Seconds overhead;
    Seconds alone;  // without overlap: their whole time, with handoffs
    Bytes equivalent_bytes;
  };

  bool can_merge(const StepOp& op) const;
  void extend(const StepOp& op);
  NodeId finish_run(NodeId entry);
  NodeId page_in(const Paging& paging, NodeId at);
  NodeId operation(const StepOp& op, NodeId entry);
  NodeId gpu_part(const StepOp& op, NodeId entry);
  NodeId cpu_part(const OpCost& cost, NodeId entry);
  NodeId host_read(Bytes equivalent_bytes, NodeId entry);
  NodeId read_after_overhead(DeviceIndex device, Seconds overhead, Bytes equivalent_bytes,
                             NodeId entry);
  NodeId handoff(const StepOp& op, NodeId entry);
  NodeId fetch(const StepOp& op, NodeId entry);
  void store(const StepOp& op, NodeId done);
  NodeId chain(NodeId before, NodeId node);
  NodeId join(NodeId a, NodeId b);  // begins when both have ended
  void label(NodeId first, NodeId last, ActivityKind kind, const StepOp& op, double bytes);

  const StepContext s_;
  const bool overlaps_;
  // Of a machine with several: nodes at the data sheet's rate of RAM, in which a read of so many
  // equivalent bytes takes as long as in RAM of one link.
  const MemoryNodes nodes_;
  const double node_bytes_;  // a byte there for each equivalent byte
  Graph graph_;
  NodeId last_ = kNoNode;
  Run run_;
  std::array<CopyEngines, kMaxGpus> engines_;
  bool recording_ = false;
  std::vector<LabelledSpan> spans_;
  Phase phase_ = Phase::kDecode;
  TokenCount token_ = 0;
};

}  // namespace rigcast::sim
