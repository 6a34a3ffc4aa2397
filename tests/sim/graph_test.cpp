#include "sim/machine/graph.hpp"

#include <cmath>

#include "core/base/error.hpp"
#include "tests/catch.hpp"
#include "tests/sim/machine_fixtures.hpp"

using namespace rigcast;
using namespace rigcast::sim;
using fixtures::machine;
using fixtures::Rates;

namespace {

// SimGrid's sharing of zero-latency links is exact; what remains is the clock's rounding.
constexpr double kTolerance = 1e-9;

Approx about(Seconds s) { return Approx(s.value).epsilon(kTolerance).margin(0); }

// Half an ulp of a clock at `now` for each end of an activity, so one ulp for a difference, and
// one more for the activity's own sums. Clocks in tests stay far below 2^20 s.
constexpr double kClockRounding = 2.0 / (1ull << 32);

}  // namespace

TEST_CASE("a transfer alone takes its bytes over the rate of the slowest link", "[graph]") {
  const Rates r;
  set_machine(machine(r));
  const Bytes bytes = 10_GB;
  struct Case {
    Route route;
    BytesPerSecond slowest;
  };
  const auto [route, slowest] = GENERATE_COPY(values<Case>({{Route::kSsdToRam, r.ssd},
                                                            {Route::kRam, r.ram},
                                                            {Route::kVram, r.vram},
                                                            {Route::kHostToGpu, r.h2d},
                                                            {Route::kHostToGpuPageable, r.pageable},
                                                            {Route::kGpuToHost, r.d2h}}));
  Graph graph;
  const NodeId copy = graph.flow(route, 0, bytes);
  graph.run();
  CHECK(graph.start(copy).value == 0.0);
  CHECK(graph.finish(copy).value == about(bytes / slowest));
}

TEST_CASE("work takes its own time on every worker", "[graph]") {
  set_machine(machine());
  const Worker worker = GENERATE(Worker::kGpu, Worker::kCpu, Worker::kDelay);
  Graph graph;
  const NodeId work = graph.work(worker, 0, 3_s);
  graph.run();
  CHECK(graph.finish(work).value == about(3_s));
}

TEST_CASE("two transfers on one link share it until the shorter one ends", "[graph]") {
  const Rates r;
  set_machine(machine(r));
  Graph graph;
  const NodeId small = graph.flow(Route::kHostToGpu, 0, 5_GB);
  const NodeId large = graph.flow(Route::kHostToGpu, 0, 20_GB);
  graph.run();
  // Half the rate each until 5 GB are through, then the whole link for the other 15 GB.
  CHECK(graph.finish(small).value == about(5_GB / (r.h2d / 2.0)));
  CHECK(graph.finish(large).value == about(25_GB / r.h2d));
}

TEST_CASE("PCI-E is full duplex: both directions reach their whole rate together", "[graph]") {
  const Rates r;
  set_machine(machine(r));
  Graph graph;
  const NodeId in = graph.flow(Route::kHostToGpu, 0, 25_GB);
  const NodeId out = graph.flow(Route::kGpuToHost, 0, 20_GB);
  graph.run();
  CHECK(graph.finish(in).value == about(25_GB / r.h2d));
  CHECK(graph.finish(out).value == about(20_GB / r.d2h));
}

TEST_CASE("a copy and a reader of RAM share its bandwidth max-min", "[graph]") {
  const Rates r;
  set_machine(machine(r));
  Graph graph;
  const NodeId copy = graph.flow(Route::kHostToGpu, 0, 25_GB);
  const NodeId read = graph.flow(Route::kRam, 0, 80_GB);
  graph.run();
  // An even share of RAM would be 40 GB/s, more than the link's 25: the reader gets the rest, 55,
  // until the copy has ended, then all 80. 55 GB in the first second, 25 GB at 80 GB/s after it.
  const Seconds copied = 25_GB / r.h2d;
  const Bytes left = 80_GB - (r.ram - r.h2d) * copied;
  CHECK(graph.finish(copy).value == about(copied));
  CHECK(graph.finish(read).value == about(copied + left / r.ram));
}

TEST_CASE("RAM slower than two links together is shared evenly by their copies", "[graph]") {
  Rates r;
  r.gpus = 2;
  r.ram = 30_GBps;
  set_machine(machine(r));
  Graph graph;
  const NodeId first = graph.flow(Route::kHostToGpu, 0, 30_GB);
  const NodeId second = graph.flow(Route::kHostToGpu, 1, 30_GB);
  graph.run();
  CHECK(graph.finish(first).value == about(60_GB / r.ram));
  CHECK(graph.finish(second).value == about(60_GB / r.ram));
}

TEST_CASE("a join of compute and memory gives the roofline's maximum", "[graph]") {
  const Rates r;
  set_machine(machine(r));
  const auto step = [&](Seconds compute, Bytes bytes) {
    Graph graph;
    const NodeId begin = graph.work(Worker::kDelay, 0, 1_s);
    const NodeId work = graph.work(Worker::kGpu, 0, compute);
    const NodeId read = graph.flow(Route::kVram, 0, bytes);
    const NodeId end = graph.join();
    for (const NodeId side : {work, read}) {
      graph.order(begin, side);
      graph.order(side, end);
    }
    graph.run();
    return graph.finish(end) - graph.finish(begin);
  };
  CHECK(step(3_s, 400_GB).value == about(3_s));
  CHECK(step(1_s, 800_GB).value == about(800_GB / r.vram));
}

TEST_CASE("two kernels on one GPU take turns and a delay excludes nobody", "[graph]") {
  set_machine(machine());
  Graph graph;
  const NodeId kernels[] = {graph.work(Worker::kGpu, 0, 1_s), graph.work(Worker::kGpu, 0, 1_s)};
  const NodeId waits[] = {graph.work(Worker::kDelay, 0, 1_s), graph.work(Worker::kDelay, 0, 1_s)};
  graph.run();
  for (const NodeId k : kernels) CHECK(graph.finish(k).value == about(2_s));
  for (const NodeId w : waits) CHECK(graph.finish(w).value == about(1_s));
}

TEST_CASE("a pipeline of chunks takes its fill and then its slowest stage per chunk", "[graph]") {
  const Rates r;
  set_machine(machine(r));
  const Bytes chunk = 100_MB;
  const Seconds copy = 15_ms;
  constexpr int kChunks = 50;
  Graph graph;
  NodeId read = kNoNode, staged = kNoNode, sent = kNoNode;
  for (int i = 0; i < kChunks; ++i) {
    const NodeId next_read = graph.flow(Route::kSsdToRam, 0, chunk);
    const NodeId next_staged = graph.work(Worker::kCpu, 0, copy);
    const NodeId next_sent = graph.flow(Route::kHostToGpu, 0, chunk);
    graph.order(read, next_read);
    graph.order(next_read, next_staged);
    graph.order(staged, next_staged);
    graph.order(next_staged, next_sent);
    graph.order(sent, next_sent);
    read = next_read, staged = next_staged, sent = next_sent;
  }
  graph.run();
  // 20 ms on the SSD, 15 ms on the CPU, 4 ms on the link: SSD and link together are far below
  // RAM's rate, so stages do not slow each other.
  const Seconds slowest = chunk / r.ssd;
  const Seconds fill = slowest + copy + chunk / r.h2d;
  CHECK(graph.finish(sent).value == about(fill + slowest * (kChunks - 1)));
}

TEST_CASE("joins and zero amounts take no time and pass on", "[graph]") {
  set_machine(machine());
  Graph graph;
  const NodeId empty_work = graph.work(Worker::kGpu, 0, 0_s);
  const NodeId empty_flow = graph.flow(Route::kHostToGpu, 0, 0_B);
  const NodeId both = graph.join();
  const NodeId work = graph.work(Worker::kGpu, 0, 1_s);
  const NodeId end = graph.join();
  graph.order(empty_work, both);
  graph.order(empty_flow, both);
  graph.order(both, work);
  graph.order(work, end);
  graph.order(kNoNode, end);
  graph.order(end, kNoNode);
  graph.run();
  for (const NodeId n : {empty_work, empty_flow, both}) CHECK(graph.finish(n).value == 0.0);
  CHECK(graph.start(work).value == 0.0);
  CHECK(graph.finish(end).value == graph.finish(work).value);
  CHECK(graph.finish(end).value == about(1_s));
}

TEST_CASE("a long chain of joins is walked without deep recursion", "[graph]") {
  Graph graph;
  constexpr int kLength = 200'000;
  NodeId last = graph.join();
  for (int i = 1; i < kLength; ++i) {
    const NodeId next = graph.join();
    graph.order(last, next);
    last = next;
  }
  graph.run();
  CHECK(graph.finish(last).value == 0.0);
}

TEST_CASE("a cycle stops with a MachineError and the process stays usable", "[graph]") {
  const Rates r;
  set_machine(machine(r));
  Graph stuck;
  const NodeId before = stuck.work(Worker::kGpu, 0, 1_s);
  const NodeId a = stuck.work(Worker::kGpu, 0, 1_s);
  const NodeId b = stuck.flow(Route::kVram, 0, 1_GB);
  const NodeId after = stuck.join();  // reached only through the cycle
  stuck.order(before, a);
  stuck.order(a, b);
  stuck.order(b, a);
  stuck.order(b, after);
  CHECK_THROWS_AS(stuck.run(), MachineError);

  Graph alone;
  const NodeId itself = alone.join();
  alone.order(itself, itself);
  CHECK_THROWS_AS(alone.run(), MachineError);

  Graph next;
  const NodeId read = next.flow(Route::kVram, 0, 400_GB);
  next.run();
  CHECK(next.finish(read).value == about(400_GB / r.vram));
}

TEST_CASE("an empty graph runs and a cleared one can be filled again", "[graph]") {
  set_machine(machine());
  Graph graph;
  graph.run();
  CHECK(graph.size() == 0);
  const NodeId first = graph.work(Worker::kCpu, 0, 2_s);
  graph.run();
  CHECK(graph.finish(first).value == about(2_s));
  graph.clear();
  CHECK(graph.size() == 0);
  const NodeId second = graph.work(Worker::kCpu, 0, 1_s);
  graph.order(graph.work(Worker::kCpu, 0, 3_s), second);
  graph.run();
  CHECK(graph.finish(second).value == about(4_s));
}

namespace {

// Contending chains on every kind of resource.
std::vector<double> run_mix(Graph& graph) {
  if (graph.size() == 0) {
    for (int lane = 0; lane < 4; ++lane) {
      NodeId last = kNoNode;
      for (int i = 0; i < 200; ++i) {
        const double size = double(1 + (i * 7 + lane * 13) % 17);
        const Route route = Route((i + lane) % kRouteCount);
        const NodeId node = i % 3 == 0 ? graph.work(Worker(lane % 3), 0, 1_us * size)
                                       : graph.flow(route, 0, 1_MB * size);
        graph.order(last, node);
        last = node;
      }
    }
  }
  graph.run();
  std::vector<double> times;
  for (std::size_t n = 0; n < graph.size(); ++n) times.push_back(graph.finish(NodeId(n)).value);
  return times;
}

}  // namespace

TEST_CASE("the same graph twice gives the same times up to the clock's rounding", "[graph]") {
  set_machine(machine());
  Graph first, second;
  const auto one = run_mix(first);
  const auto two = run_mix(second);
  const auto again = run_mix(first);  // the same object, not only the same shape
  REQUIRE(one.size() == two.size());
  for (std::size_t i = 0; i < one.size(); ++i) {
    // Every activity rounds its end to the simulated clock, and 800 of them can add up.
    CHECK(std::fabs(one[i] - two[i]) <= 800 * kClockRounding);
    CHECK(std::fabs(one[i] - again[i]) <= 800 * kClockRounding);
  }
}

TEST_CASE("another rig's rates hold from the next run on", "[graph]") {
  Rates r;
  for (const double factor : {1.0, 2.0, 0.25}) {
    r.h2d = BytesPerSecond{25e9 * factor};
    r.vram = BytesPerSecond{400e9 * factor};
    set_machine(machine(r));
    Graph graph;
    const NodeId in = graph.flow(Route::kHostToGpu, 0, 10_GB);
    graph.run();
    CHECK(graph.finish(in).value == about(10_GB / r.h2d));
  }
}

TEST_CASE("on a unified chip the GPU reads RAM and shares it with the CPU", "[graph]") {
  const Rates r;
  Rig rig = machine(r);
  rig.gpus.front().unified = true;
  set_machine(rig);
  Graph graph;
  const NodeId gpu = graph.flow(Route::kVram, 0, 40_GB);
  const NodeId cpu = graph.flow(Route::kRam, 0, 40_GB);
  graph.run();
  CHECK(graph.finish(gpu).value == about(80_GB / r.ram));
  CHECK(graph.finish(cpu).value == about(80_GB / r.ram));
  set_machine(machine(r));
  Graph discrete;
  const NodeId vram = discrete.flow(Route::kVram, 0, 40_GB);
  discrete.run();
  CHECK(discrete.finish(vram).value == about(40_GB / r.vram));
}
