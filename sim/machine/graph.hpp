#pragma once
// A graph of activities with its own dependency counters. Activities are created when they start,
// never before, and successors start from SimGrid's completion signal: this is what keeps a run
// linear in the number of activities (docs/simulator.md).

#include <cstdint>
#include <vector>

#include "core/base/units.hpp"
#include "core/scenario/numa_policy.hpp"
#include "sim/machine/machine.hpp"

namespace rigcast::sim {

using NodeId = std::int32_t;
inline constexpr NodeId kNoNode = -1;

class Graph {
 public:
  /// A join: takes no time.
  NodeId join();
  NodeId work(Worker worker, int gpu, Seconds amount);
  NodeId flow(Route route, int gpu, Bytes amount);
  /// The cores of `nodes` memory nodes read `amount` once, each node's an equal part, from where
  /// the policy has it. Begins after `before` (kNoNode: at once); returns the join of its flows.
  NodeId read_nodes(NumaPolicy policy, int nodes, Bytes amount, NodeId before);
  /// `after` starts only when `before` has finished. kNoNode on either side is ignored.
  void order(NodeId before, NodeId after);

  /// Runs the whole graph; every call runs it again. Throws MachineError if the graph cannot make
  /// progress.
  void run();

  /// Seconds since the start of the run.
  Seconds start(NodeId node) const { return {nodes_[std::size_t(node)].start}; }
  Seconds finish(NodeId node) const { return {nodes_[std::size_t(node)].finish}; }
  std::size_t size() const { return nodes_.size(); }
  void clear();

 private:
  friend class Runner;
  enum class Kind : std::uint8_t { kJoin, kWork, kFlow };
  struct Node {
    double amount = 0;  // seconds, or bytes
    double start = 0, finish = 0;
    std::int32_t first_edge = -1;
    std::int32_t waits_for = 0;
    std::int32_t arrived = 0;  // predecessors that have finished in this run
    Kind kind = Kind::kJoin;
    std::uint8_t where = 0;  // worker or route
    std::uint8_t gpu = 0;
  };
  struct Edge {
    NodeId to;
    std::int32_t next;
  };
  NodeId add(Node node);

  std::vector<Node> nodes_;
  std::vector<Edge> edges_;
};

/// Activities that SimGrid has completed since the process began.
std::uint64_t completed_activities();

}  // namespace rigcast::sim
