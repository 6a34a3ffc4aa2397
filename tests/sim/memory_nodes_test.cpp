// Memory nodes in the simulator: its flows take what the closed forms say, and share what they use
// with copies.

#include "perfmodel/context/memory_nodes.hpp"

#include "sim/machine/graph.hpp"
#include "sim/step_graph.hpp"
#include "tests/catch.hpp"
#include "tests/sim/machine_fixtures.hpp"
#include "tests/sim/scenario_fixtures.hpp"

using namespace rigcast;
using namespace rigcast::sim;
using fixtures::machine;
using fixtures::Rates;

namespace {

// SimGrid's sharing of zero-latency links is exact; what remains is the clock's rounding.
constexpr double kTolerance = 1e-9;

Approx about(Seconds s) { return Approx(s.value).epsilon(kTolerance).margin(0); }

constexpr NumaPolicy kAll[] = {NumaPolicy::kNone, NumaPolicy::kDistribute, NumaPolicy::kIsolate,
                               NumaPolicy::kMirror};

// The time of one operation of the host that reads so many equivalent bytes, beside which copies
// may run.
Seconds host_read(const Scenario& s, Bytes equivalent) {
  StepOp op;
  op.device = kHost;
  op.cost.equivalent_bytes = op.cost.bytes = equivalent;
  Step step;
  step.ops = {op, op};
  set_machine(s.rig);
  StepGraph graph(s, true);
  const NodeId end = graph.append(step, Phase::kDecode, 0);
  graph.run();
  return graph.finish(end);
}

}  // namespace

TEST_CASE("flows between memory nodes take what the closed form says", "[nodes]") {
  set_machine(machine());
  const Bytes bytes = 10_GB;
  for (const int n : {1, 2, 3, 4, 8})
    for (const double local : {20e9, 100e9})
      for (const double remote : {1e9, 9e9, 34e9, 50e9, 51e9, 99e9, 400e9})
        for (const NumaPolicy policy : kAll) {
          INFO(n << " nodes of " << local << ", links of " << remote << ", " << name(policy));
          const MemoryNodes nodes{n, BytesPerSecond{local}, BytesPerSecond{remote}};
          set_memory_nodes(n, nodes.local, nodes.remote);
          Graph graph;
          const NodeId read = graph.read_nodes(policy, n, bytes, kNoNode);
          graph.run();
          CHECK(graph.finish(read).value == about(bytes / read_rate(nodes, policy)));
        }
  set_machine(machine());
}

TEST_CASE("reads of memory nodes follow what they wait for, and are waited for", "[nodes]") {
  set_machine(machine());
  set_memory_nodes(2, 10_GBps, 5_GBps);
  Graph graph;
  const NodeId first = graph.work(Worker::kCpu, 0, 1_s);
  const NodeId read = graph.read_nodes(NumaPolicy::kMirror, 2, 40_GB, first);
  const NodeId last = graph.work(Worker::kCpu, 0, 1_s);
  graph.order(read, last);
  graph.run();
  CHECK(graph.finish(read).value == about(3_s));
  CHECK(graph.finish(last).value == about(4_s));
  set_machine(machine());
}

TEST_CASE("a copy to a GPU shares the first node's memory with its readers, max-min", "[nodes]") {
  set_machine(machine());
  set_memory_nodes(2, 40_GBps, 5_GBps);
  // Node 0's memory gives the other socket the 5 GB/s of its link for a second, and half of the
  // other 35 each to its own cores and to the copy, which could take 25.
  Graph graph;
  const NodeId copy = graph.flow(Route::kHostToGpu, 0, 25_GB);
  const NodeId read = graph.read_nodes(NumaPolicy::kNone, 2, 10_GB, kNoNode);
  graph.run();
  CHECK(graph.finish(read).value == about(1_s));
  const Seconds own = 5_GB / 17.5_GBps;
  CHECK(graph.finish(copy).value == about(own + 20_GB / 25_GBps));
  set_machine(machine());
}

TEST_CASE("an operation of the host takes as long on memory nodes as in one memory", "[nodes]") {
  for (const char* policy : {"none", "distribute", "isolate", "mirror"})
    for (const char* cpu : {"xeon-gold-6248", "2x-xeon-gold-6248", "2x-xeon-6980p"}) {
      INFO(cpu << ", " << policy);
      const Scenario s = fixtures::scenario({{"rig.cpu", cpu}, {"runtime.numa", policy}});
      const Bytes equivalent = 3_GB;
      CHECK(host_read(s, equivalent).value == about(2.0 * equivalent / s.rig.ram.bandwidth.value));
    }
}
