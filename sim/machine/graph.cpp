#include "sim/machine/graph.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/base/error.hpp"
#include "sim/machine/platform.hpp"

namespace sg = simgrid::s4u;

namespace rigcast::sim {

// Starts the nodes of one graph and follows SimGrid's completion signals. Signals are global and
// never removed, so there is one runner for the process and the graph is what changes.
class Runner {
 public:
  static Runner& instance() {
    static Runner runner;
    return runner;
  }

  void run(Graph& graph) {
    graph_ = &graph;
    live_.assign(graph.nodes_.size(), nullptr);
    done_ = 0;
    begin_ = sg::Engine::get_clock();
    for (std::size_t i = 0; i < graph.nodes_.size(); ++i) {
      graph.nodes_[i].arrived = 0;
      if (graph.nodes_[i].waits_for == 0) ready_.push_back(NodeId(i));
    }
    start_ready();
    sg::Engine::get_instance()->run();
    finished_.clear();
    graph_ = nullptr;
    if (done_ != graph.nodes_.size())
      throw MachineError(
          fmt::format("simulation stopped after {} of {} activities", done_, graph.nodes_.size()));
  }

  std::uint64_t completed() const { return completed_; }

 private:
  Runner() {
    Platform::instance();
    sg::Activity::on_completion_cb([this](const sg::Activity& activity) { completed(activity); });
    // SimGrid still uses an activity after it has signalled its end: free it when time moves on.
    sg::Engine::on_time_advance_cb([this](double) { finished_.clear(); });
  }

  static void* tag(NodeId node) { return reinterpret_cast<void*>(std::intptr_t(node) + 1); }

  void completed(const sg::Activity& activity) {
    const void* data = activity.get_data<void>();
    if (!data || !graph_) return;
    ++completed_;
    finish(NodeId(reinterpret_cast<std::intptr_t>(data) - 1));
    start_ready();
  }

  void finish(NodeId id) {
    Graph::Node& node = graph_->nodes_[std::size_t(id)];
    node.finish = sg::Engine::get_clock() - begin_;
    ++done_;
    for (std::int32_t e = node.first_edge; e >= 0; e = graph_->edges_[std::size_t(e)].next) {
      const NodeId successor = graph_->edges_[std::size_t(e)].to;
      Graph::Node& next = graph_->nodes_[std::size_t(successor)];
      if (++next.arrived == next.waits_for) ready_.push_back(successor);
    }
    if (live_[std::size_t(id)]) finished_.push_back(std::move(live_[std::size_t(id)]));
  }

  void start_ready() {
    while (!ready_.empty()) {
      const NodeId id = ready_.back();
      ready_.pop_back();
      start(id);
    }
  }

  void start(NodeId id) {
    Graph::Node& node = graph_->nodes_[std::size_t(id)];
    node.start = sg::Engine::get_clock() - begin_;
    if (node.kind == Graph::Kind::kJoin || node.amount <= 0) return finish(id);
    if (node.kind == Graph::Kind::kWork) {
      auto exec = sg::Exec::init();
      exec->set_flops_amount(node.amount);
      exec->set_host(Platform::instance().worker(Worker(node.where), node.gpu));
      exec->set_data(tag(id));
      live_[std::size_t(id)] = exec;
      exec->start();
    } else {
      const auto ends = Platform::instance().route(Route(node.where), node.gpu);
      const double units = std::max(1.0, std::round(node.amount * kUnitsPerByte));
      auto comm = sg::Comm::sendto_init();
      comm->set_payload_size(std::uint64_t(units));
      comm->set_data(tag(id));
      live_[std::size_t(id)] = comm;
      comm->set_source(ends.from);
      comm->set_destination(ends.to);  // both ends known: it starts here
    }
  }

  Graph* graph_ = nullptr;
  std::vector<sg::ActivityPtr> live_;
  std::vector<sg::ActivityPtr> finished_;
  std::vector<NodeId> ready_;
  std::size_t done_ = 0;
  std::uint64_t completed_ = 0;
  double begin_ = 0;
};

NodeId Graph::add(Node node) {
  nodes_.push_back(node);
  return NodeId(nodes_.size() - 1);
}

NodeId Graph::join() { return add({}); }

NodeId Graph::work(Worker worker, int gpu, Seconds amount) {
  return add({.amount = amount.value,
              .kind = Kind::kWork,
              .where = std::uint8_t(worker),
              .gpu = std::uint8_t(gpu)});
}

NodeId Graph::flow(Route route, int gpu, Bytes amount) {
  return add({.amount = amount.value,
              .kind = Kind::kFlow,
              .where = std::uint8_t(route),
              .gpu = std::uint8_t(gpu)});
}

NodeId Graph::read_nodes(NumaPolicy policy, int nodes, Bytes amount, NodeId before) {
  const NodeId done = join();
  const auto read = [&](int reader, int memory, double parts) {
    const NodeId node = flow(Route::kNodeRead, reader * kMaxMemoryNodes + memory, amount / parts);
    order(before, node);
    order(node, done);
  };
  if (policy == NumaPolicy::kIsolate) {
    read(0, 0, 1);
    return done;
  }
  for (int reader = 0; reader < nodes; ++reader) {
    if (policy == NumaPolicy::kNone) read(reader, 0, nodes);
    if (policy == NumaPolicy::kMirror) read(reader, reader, nodes);
    if (policy == NumaPolicy::kDistribute)
      for (int memory = 0; memory < nodes; ++memory) read(reader, memory, double(nodes) * nodes);
  }
  return done;
}

void Graph::order(NodeId before, NodeId after) {
  if (before == kNoNode || after == kNoNode) return;
  Node& from = nodes_[std::size_t(before)];
  edges_.push_back({after, from.first_edge});
  from.first_edge = std::int32_t(edges_.size() - 1);
  ++nodes_[std::size_t(after)].waits_for;
}

void Graph::run() { Runner::instance().run(*this); }

void Graph::clear() {
  nodes_.clear();
  edges_.clear();
}

std::uint64_t completed_activities() { return Runner::instance().completed(); }

}  // namespace rigcast::sim
