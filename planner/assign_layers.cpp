#include "planner/assign_layers.hpp"

#include <algorithm>
#include <array>
#include <boost/graph/adjacency_list.hpp>
#include <boost/graph/r_c_shortest_paths.hpp>
#include <cmath>

namespace rigcast::planner {
namespace {

constexpr double kSteps = 256;

struct Vertex {
  int index = 0;
};
struct Edge {
  int index = 0;
  int layer = 0;  // that is placed; layers: the end
  int from = -1, to = -1;
};
using Graph = boost::adjacency_list<boost::vecS, boost::vecS, boost::directedS, Vertex, Edge>;
using EdgeDescriptor = boost::graph_traits<Graph>::edge_descriptor;

// What a way has taken so far.
struct Taken {
  int layers = 0;
  double seconds = 0;
  std::array<double, kMostMemories> bytes{};

  bool operator==(const Taken&) const = default;
  // Ways are extended in this order: one that is reached later cannot be a part of them.
  bool operator<(const Taken& other) const {
    if (layers != other.layers) return layers < other.layers;
    if (seconds != other.seconds) return seconds < other.seconds;
    return bytes < other.bytes;
  }
};

class Extend {
 public:
  explicit Extend(const AssignmentProblem& p) : p_(p), least_(std::size_t(p.layers) + 1, 0.0) {
    for (int layer = p.layers - 1; layer >= 0; --layer) {
      double least = kNever;
      for (const Station& s : p.stations) least = std::min(least, s.seconds[std::size_t(layer)]);
      least_[std::size_t(layer)] = least_[std::size_t(layer) + 1] + least;
    }
  }

  bool operator()(const Graph& graph, Taken& next, const Taken& now, EdgeDescriptor at) const {
    const Edge& e = graph[at];
    next = now;
    e.layer < p_.layers ? place(e, next) : finish(e, next);
    return fits(next) && next.seconds + least_[std::size_t(next.layers)] <= p_.at_most;
  }

 private:
  void place(const Edge& e, Taken& next) const {
    const Station& s = p_.stations[std::size_t(e.to)];
    const auto layer = std::size_t(e.layer);
    const bool is_new = e.from < 0 || p_.stations[std::size_t(e.from)].device != s.device;
    next.layers = e.layer + 1;
    next.seconds += s.seconds[layer] + p_.change[std::size_t(e.from + 1)][std::size_t(e.to)];
    for (std::size_t m = 0; m < p_.capacity.size(); ++m) {
      next.bytes[m] += s.bytes[m][layer];
      if (is_new) next.bytes[m] += s.own_bytes[m];
    }
  }
  void finish(const Edge& e, Taken& next) const {
    const Station& s = p_.stations[std::size_t(e.from)];
    next.seconds += s.end_seconds;
    for (std::size_t m = 0; m < p_.capacity.size(); ++m) next.bytes[m] += s.end_bytes[m];
  }
  bool fits(const Taken& t) const {
    for (std::size_t m = 0; m < p_.capacity.size(); ++m)
      if (t.bytes[m] > p_.capacity[m]) return false;
    return true;
  }

  const AssignmentProblem& p_;
  std::vector<double> least_;  // that the layers from here on add
};

class Dominates {
 public:
  explicit Dominates(const AssignmentProblem& p) : p_(p) {}

  bool operator()(const Taken& a, const Taken& b) const {
    if (a.seconds > b.seconds) return false;
    for (std::size_t m = 0; m < p_.capacity.size(); ++m)
      if (steps(a, m) > steps(b, m)) return false;
    return true;
  }

 private:
  double steps(const Taken& t, std::size_t memory) const {
    return std::ceil(t.bytes[memory] * kSteps / p_.capacity[memory]);
  }

  const AssignmentProblem& p_;
};

// A vertex before all layers, one for every layer and station, and one behind.
class LayeredGraph {
 public:
  explicit LayeredGraph(const AssignmentProblem& p) : p_(p) {
    const int stations = int(p.stations.size());
    for (int v = 0; v < 2 + p.layers * stations; ++v) boost::add_vertex(Vertex{v}, graph_);
    for (int to = 0; to < stations; ++to) connect(begin(), vertex(0, to), {0, 0, -1, to});
    for (int layer = 1; layer < p.layers; ++layer)
      for (int from = 0; from < stations; ++from)
        for (int to = 0; to < stations; ++to)
          connect(vertex(layer - 1, from), vertex(layer, to), {0, layer, from, to});
    for (int from = 0; from < stations; ++from)
      boost::add_edge(vertex(p.layers - 1, from), end(), Edge{edges_++, p.layers, from, -1},
                      graph_);
  }

  const Graph& graph() const { return graph_; }
  std::size_t begin() const { return 0; }
  std::size_t end() const { return 1; }

 private:
  std::size_t vertex(int layer, int station) const {
    return 2 + std::size_t(layer) * p_.stations.size() + std::size_t(station);
  }
  void connect(std::size_t from, std::size_t to, Edge edge) {
    if (p_.change[std::size_t(edge.from + 1)][std::size_t(edge.to)] == kNever) return;
    edge.index = edges_++;
    boost::add_edge(from, to, edge, graph_);
  }

  const AssignmentProblem& p_;
  Graph graph_;
  int edges_ = 0;
};

}  // namespace

std::optional<Assignment> assign_layers(const AssignmentProblem& problem) {
  if (problem.layers == 0 || problem.stations.empty()) return std::nullopt;
  const LayeredGraph layered(problem);
  const Graph& graph = layered.graph();
  std::vector<std::vector<EdgeDescriptor>> ways;
  std::vector<Taken> taken;
  boost::r_c_shortest_paths(graph, boost::get(&Vertex::index, graph),
                            boost::get(&Edge::index, graph), layered.begin(), layered.end(), ways,
                            taken, Taken{}, Extend(problem), Dominates(problem));
  const auto best = std::ranges::min_element(taken, {}, &Taken::seconds);
  if (best == taken.end()) return std::nullopt;
  Assignment out{std::vector<int>(std::size_t(problem.layers)), best->seconds};
  for (const EdgeDescriptor e : ways[std::size_t(best - taken.begin())])
    if (graph[e].to >= 0) out.station[std::size_t(graph[e].layer)] = graph[e].to;
  return out;
}

}  // namespace rigcast::planner
