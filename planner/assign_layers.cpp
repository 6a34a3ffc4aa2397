#include "planner/assign_layers.hpp"

#include <algorithm>
#include <array>
#include <boost/graph/adjacency_list.hpp>
#include <boost/graph/r_c_shortest_paths.hpp>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>

namespace rigcast::planner {
namespace {

// The number of steps into which each memory is divided. The solution with few steps is a bound for
// the search with more.
constexpr double kFirstSteps = 8, kSecondSteps = 48, kSteps = 256;
// The limit of extended paths: where very many paths are equally fast, no bound prunes them, and
// the solution with few steps stays.
constexpr std::int64_t kMaxExpansions = 1'000'000;

struct Vertex {
  int index = 0;
};
struct Edge {
  int index = 0;
  int layer = 0;  // index of the layer that is placed; layers: the end
  int from = -1, to = -1;
};
using Graph = boost::adjacency_list<boost::vecS, boost::vecS, boost::directedS, Vertex, Edge>;
using EdgeDescriptor = boost::graph_traits<Graph>::edge_descriptor;

// The state of a partial path: what it has used so far.
struct PartialAssignment {
  int layers = 0;
  int location = -1;  // place of the last layer
  double seconds = 0;
  std::array<double, kMaxMemories> bytes{};

  bool operator==(const PartialAssignment&) const = default;
  // Paths are extended in this order: a later path cannot be a prefix of an earlier one.
  bool operator<(const PartialAssignment& other) const {
    if (layers != other.layers) return layers < other.layers;
    if (location != other.location) return location < other.location;
    if (seconds != other.seconds) return seconds < other.seconds;
    return bytes < other.bytes;
  }
};

double sum(const std::vector<double>& of) { return std::accumulate(of.begin(), of.end(), 0.0); }

// What a byte of the scarce memories would have to cost for a path not to care which of two places
// a layer has. At these prices a bound knows that not all layers fit into the fastest place.
class MemoryPrices {
 public:
  explicit MemoryPrices(const AssignmentProblem& p) : is_scarce_(p.capacity.size(), true) {
    const auto slowest = std::ranges::max_element(
        p.locations, {}, [](const Location& at) { return sum(at.seconds); });
    for (std::size_t m = 0; m < p.capacity.size(); ++m)
      is_scarce_[m] = std::isfinite(p.capacity[m]) && sum(slowest->bytes[m]) <= 0;
    for (const Location& fast : p.locations)
      for (const Location& slow : p.locations) add(fast, slow);
  }

  /// Seconds per byte; the first is 0.
  const std::vector<double>& prices() const { return prices_; }
  bool is_scarce(std::size_t memory) const { return is_scarce_[memory]; }
  /// Bytes of scarce memories that a layer takes at a place.
  double bytes(const Location& at, std::size_t layer) const {
    double all = 0;
    for (std::size_t m = 0; m < is_scarce_.size(); ++m)
      if (is_scarce_[m]) all += at.bytes[m][layer];
    return all;
  }

 private:
  static constexpr std::size_t kMaxPrices = 12;

  void add(const Location& fast, const Location& slow) {
    double more = 0;
    for (std::size_t l = 0; l < fast.seconds.size(); ++l) more += bytes(fast, l) - bytes(slow, l);
    const double price = (sum(slow.seconds) - sum(fast.seconds)) / more;
    if (more <= 0 || price <= 0 || prices_.size() >= kMaxPrices) return;
    const auto is_near = [&](double other) { return std::abs(other - price) <= 0.01 * price; };
    if (std::ranges::none_of(prices_, is_near)) prices_.push_back(price);
  }

  std::vector<bool> is_scarce_;  // [memory]: no layer is there in the slowest place
  std::vector<double> prices_{0.0};
};

// Bounds on all continuations from a station, computed before the search.
class RemainingCost {
 public:
  explicit RemainingCost(const AssignmentProblem& p) : p_(p), prices_(p) {
    const std::size_t locations = p.locations.size(), layers = std::size_t(p.layers);
    for (std::size_t s = 0; s < locations; ++s) {
      priced_.emplace_back(prices_.prices().size(), std::vector<double>(layers + 1, 0.0));
      bytes_.emplace_back(layers + 1, 0.0);
      used_by_layers_.emplace_back(p.capacity.size(), false);
      used_.emplace_back(p.capacity.size(), false);
      const std::vector<std::size_t> reached = reached_from(s);
      for (const std::size_t to : reached) note_memories(to, s);
      for (std::size_t layer = layers; layer-- > 0;) {
        double bytes = kForbidden;
        for (const std::size_t to : reached) bytes = std::min(bytes, bytes_of(to, layer));
        add_priced(s, reached, layer);
        bytes_[s][layer] = bytes_[s][layer + 1] + bytes;
      }
    }
  }

  /// A lower bound of the seconds that any continuation adds: those of layers that pay for memory,
  /// less the price of all that is free (Lagrangian relaxation).
  double seconds(int location, const PartialAssignment& t) const {
    const auto s = std::size_t(location);
    double free = 0;
    for (std::size_t m = 0; m < p_.capacity.size(); ++m)
      if (prices_.is_scarce(m) && used_by_layers_[s][m]) free += p_.capacity[m] - t.bytes[m];
    double bound = 0;
    for (std::size_t i = 0; i < prices_.prices().size(); ++i)
      bound = std::max(bound, priced_[s][i][std::size_t(t.layers)] - prices_.prices()[i] * free);
    return bound;
  }
  /// True if a continuation may use that memory. Otherwise the use so far no longer matters: so it
  /// is with devices that are finished, which keeps the number of paths small for further GPUs.
  bool uses(int location, std::size_t memory) const { return used_[std::size_t(location)][memory]; }
  /// True if the remaining layers may fit.
  bool has_room(int location, const PartialAssignment& t) const {
    double free = 0;
    for (std::size_t m = 0; m < p_.capacity.size(); ++m)
      if (used_by_layers_[std::size_t(location)][m]) free += p_.capacity[m] - t.bytes[m];
    return bytes_[std::size_t(location)][std::size_t(t.layers)] <= free;
  }

 private:
  // The station itself and all stations that a path from it can reach.
  std::vector<std::size_t> reached_from(std::size_t location) const {
    std::vector<std::size_t> reached{location};
    for (std::size_t i = 0; i < reached.size(); ++i)
      for (std::size_t to = 0; to < p_.locations.size(); ++to)
        if (p_.change[reached[i] + 1][to] != kForbidden &&
            std::ranges::find(reached, to) == reached.end())
          reached.push_back(to);
    return reached;
  }
  void add_priced(std::size_t s, const std::vector<std::size_t>& reached, std::size_t layer) {
    for (std::size_t i = 0; i < prices_.prices().size(); ++i) {
      double least = kForbidden;
      for (const std::size_t to : reached) {
        const Location& at = p_.locations[to];
        least = std::min(least, at.seconds[layer] + prices_.prices()[i] * prices_.bytes(at, layer));
      }
      priced_[s][i][layer] = priced_[s][i][layer + 1] + least;
    }
  }
  double bytes_of(std::size_t location, std::size_t layer) const {
    double sum = 0;
    for (const auto& of : p_.locations[location].bytes) sum += of[layer];
    return sum;
  }
  // Records that paths from `before` may use the memories that `location` uses.
  void note_memories(std::size_t location, std::size_t before) {
    const Location& s = p_.locations[location];
    for (std::size_t m = 0; m < p_.capacity.size(); ++m) {
      const bool by_layers = std::ranges::any_of(s.bytes[m], [](double b) { return b > 0; });
      if (by_layers) used_by_layers_[before][m] = true;
      if (by_layers || s.own_bytes[m] > 0 || s.end_bytes[m] > 0) used_[before][m] = true;
    }
  }

  const AssignmentProblem& p_;
  MemoryPrices prices_;
  std::vector<std::vector<std::vector<double>>> priced_;  // [station][price][layer]: sums from that
                                                          // layer on, memory paid for
  std::vector<std::vector<double>> bytes_;                // [station][layer]: the same of bytes
  std::vector<std::vector<bool>> used_by_layers_, used_;  // [station][memory]: used by paths from
                                                          // there
};

class Extend {
 public:
  /// `expansions` is the number of paths that may still be extended.
  Extend(const AssignmentProblem& p, const RemainingCost& remaining, double at_most,
         std::int64_t& expansions)
      : p_(p), remaining_(remaining), at_most_(at_most), expansions_(expansions) {}

  bool operator()(const Graph& graph, PartialAssignment& next, const PartialAssignment& now,
                  EdgeDescriptor at) const {
    const Edge& e = graph[at];
    if (expansions_-- <= 0) return false;
    next = now;
    if (e.layer == p_.layers) {
      finish(e, next);
      return fits(next) && next.seconds <= at_most_;
    }
    place(e, next);
    return fits(next) && next.seconds + remaining_.seconds(e.to, next) <= at_most_ &&
           remaining_.has_room(e.to, next);
  }

 private:
  void place(const Edge& e, PartialAssignment& next) const {
    const Location& s = p_.locations[std::size_t(e.to)];
    const auto layer = std::size_t(e.layer);
    const bool is_new = e.from < 0 || p_.locations[std::size_t(e.from)].device != s.device;
    next.layers = e.layer + 1;
    next.location = e.to;
    next.seconds += s.seconds[layer] + p_.change[std::size_t(e.from + 1)][std::size_t(e.to)];
    for (std::size_t m = 0; m < p_.capacity.size(); ++m) {
      next.bytes[m] += s.bytes[m][layer];
      if (is_new) next.bytes[m] += s.own_bytes[m];
    }
  }
  void finish(const Edge& e, PartialAssignment& next) const {
    const Location& s = p_.locations[std::size_t(e.from)];
    next.layers = p_.layers + 1;
    next.seconds += s.end_seconds;
    for (std::size_t m = 0; m < p_.capacity.size(); ++m) next.bytes[m] += s.end_bytes[m];
  }
  bool fits(const PartialAssignment& t) const {
    for (std::size_t m = 0; m < p_.capacity.size(); ++m)
      if (t.bytes[m] > p_.capacity[m]) return false;
    return true;
  }

  const AssignmentProblem& p_;
  const RemainingCost& remaining_;
  double at_most_;
  std::int64_t& expansions_;
};

class Dominates {
 public:
  Dominates(const AssignmentProblem& p, const RemainingCost& remaining, double steps)
      : p_(p), remaining_(remaining), steps_(steps) {}

  // Both paths are at the same station; at the end, and before the first layer, memory no longer
  // matters.
  bool operator()(const PartialAssignment& a, const PartialAssignment& b) const {
    if (a.seconds > b.seconds) return false;
    if (a.location < 0 || a.layers == p_.layers + 1) return true;
    for (std::size_t m = 0; m < p_.capacity.size(); ++m)
      if (remaining_.uses(a.location, m) && steps_of(a, m) > steps_of(b, m)) return false;
    return true;
  }

 private:
  double steps_of(const PartialAssignment& t, std::size_t memory) const {
    return std::ceil(t.bytes[memory] * steps_ / p_.capacity[memory]);
  }

  const AssignmentProblem& p_;
  const RemainingCost& remaining_;
  double steps_;
};

// The graph: a start vertex, a vertex for every layer and station, and an end vertex.
class LayeredGraph {
 public:
  explicit LayeredGraph(const AssignmentProblem& p) : p_(p) {
    const int locations = int(p.locations.size());
    for (int v = 0; v < 2 + p.layers * locations; ++v) boost::add_vertex(Vertex{v}, graph_);
    for (int to = 0; to < locations; ++to) connect(begin(), vertex(0, to), {0, 0, -1, to});
    for (int layer = 1; layer < p.layers; ++layer)
      for (int from = 0; from < locations; ++from)
        for (int to = 0; to < locations; ++to)
          connect(vertex(layer - 1, from), vertex(layer, to), {0, layer, from, to});
    for (int from = 0; from < locations; ++from)
      boost::add_edge(vertex(p.layers - 1, from), end(), Edge{edges_++, p.layers, from, -1},
                      graph_);
  }

  const Graph& graph() const { return graph_; }
  std::size_t begin() const { return 0; }
  std::size_t end() const { return 1; }

 private:
  std::size_t vertex(int layer, int location) const {
    return 2 + std::size_t(layer) * p_.locations.size() + std::size_t(location);
  }
  void connect(std::size_t from, std::size_t to, Edge edge) {
    if (p_.change[std::size_t(edge.from + 1)][std::size_t(edge.to)] == kForbidden) return;
    edge.index = edges_++;
    boost::add_edge(from, to, edge, graph_);
  }

  const AssignmentProblem& p_;
  Graph graph_;
  int edges_ = 0;
};

std::optional<Assignment> shortest_path(const AssignmentProblem& problem,
                                        const LayeredGraph& layered, const RemainingCost& remaining,
                                        double steps, double at_most, std::int64_t expansions) {
  const Graph& graph = layered.graph();
  std::vector<std::vector<EdgeDescriptor>> ways;
  std::vector<PartialAssignment> taken;
  boost::r_c_shortest_paths(
      graph, boost::get(&Vertex::index, graph), boost::get(&Edge::index, graph), layered.begin(),
      layered.end(), ways, taken, PartialAssignment{},
      Extend(problem, remaining, at_most, expansions), Dominates(problem, remaining, steps));
  const auto best = std::ranges::min_element(taken, {}, &PartialAssignment::seconds);
  if (best == taken.end()) return std::nullopt;
  Assignment out{std::vector<int>(std::size_t(problem.layers)), best->seconds};
  for (const EdgeDescriptor e : ways[std::size_t(best - taken.begin())])
    if (graph[e].to >= 0) out.location[std::size_t(graph[e].layer)] = graph[e].to;
  return out;
}

}  // namespace

std::optional<Assignment> assign_layers(const AssignmentProblem& problem) {
  if (problem.layers == 0 || problem.locations.empty()) return std::nullopt;
  const LayeredGraph layered(problem);
  const RemainingCost remaining(problem);
  const auto first = shortest_path(problem, layered, remaining, kFirstSteps, problem.at_most,
                                   std::numeric_limits<std::int64_t>::max());
  std::optional<Assignment> best = first;
  for (const double steps : {kSecondSteps, kSteps}) {
    // The bound is slightly above the known solution, for sums in another order.
    const double at_most = best ? best->seconds * (1 + 1e-12) : problem.at_most;
    if (auto better = shortest_path(problem, layered, remaining, steps, at_most, kMaxExpansions))
      best = std::move(better);
  }
  return best;
}

}  // namespace rigcast::planner
