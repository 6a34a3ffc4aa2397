// The graph against an independent solver of max-min sharing: rates rise together until a link is
// full, its flows stop there, the others go on.
#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "sim/machine/graph.hpp"
#include "tests/catch.hpp"
#include "tests/sim/machine_fixtures.hpp"

using namespace rigcast;
using namespace rigcast::sim;

namespace {

constexpr int kGpus = 2;

struct Flow {
  std::vector<int> links;
  double start = 0;
  double left = 0;  // bytes
  double finish = 0;
};

// Links: 0 SSD, 1 RAM, then VRAM, H2D, D2H and pageable of every GPU.
int link_of(int gpu, int which) { return 2 + gpu * 4 + which; }

std::vector<double> capacities(const Rig& rig) {
  std::vector<double> c{rig.ssd.sequential_read.value.value, rig.ram.bandwidth.value.value};
  for (std::size_t g = 0; g < kGpus; ++g)
    for (const double rate : {rig.gpus[g].bandwidth.value.value, rig.links[g].h2d.value.value,
                              rig.links[g].d2h.value.value, rig.links[g].pageable.value.value})
      c.push_back(rate);
  return c;
}

// Links by the description of the machine, independent of the platform's code.
std::vector<int> links_of(Route route, int gpu) {
  const int vram = link_of(gpu, 0), h2d = link_of(gpu, 1), d2h = link_of(gpu, 2);
  switch (route) {
    case Route::kSsdToRam: return {0, 1};
    case Route::kRam: return {1};
    case Route::kVram: return {vram};
    case Route::kHostToGpu: return {1, h2d, vram};
    case Route::kHostToGpuPageable: return {1, link_of(gpu, 3), h2d, vram};
    case Route::kGpuToHost: return {vram, d2h, 1};
    case Route::kNodeRead: break;  // of machines with several memory nodes
  }
  return {};
}

std::vector<double> fair_rates(const std::vector<Flow>& flows, const std::vector<int>& active,
                               std::vector<double> room) {
  std::vector<double> rate(flows.size(), 0.0);
  std::vector<int> rising = active;
  while (!rising.empty()) {
    std::vector<int> users(room.size(), 0);
    for (const int f : rising)
      for (const int l : flows[std::size_t(f)].links) ++users[std::size_t(l)];
    double step = std::numeric_limits<double>::infinity();
    for (std::size_t l = 0; l < room.size(); ++l)
      if (users[l] > 0) step = std::min(step, room[l] / users[l]);
    std::vector<bool> full(room.size(), false);
    for (std::size_t l = 0; l < room.size(); ++l) {
      if (users[l] == 0) continue;
      full[l] = room[l] / users[l] <= step * (1 + 1e-13);
      room[l] = full[l] ? 0.0 : room[l] - step * users[l];
    }
    for (const int f : rising) rate[std::size_t(f)] += step;
    std::erase_if(rising, [&](int f) {
      const auto& links = flows[std::size_t(f)].links;
      return std::ranges::any_of(links, [&](int l) { return full[std::size_t(l)]; });
    });
  }
  return rate;
}

// Simulates from event to event: a start or an end.
void solve(std::vector<Flow>& flows, const std::vector<double>& room) {
  double now = 0;
  for (;;) {
    std::vector<int> active;
    double next = std::numeric_limits<double>::infinity();
    for (std::size_t f = 0; f < flows.size(); ++f) {
      if (flows[f].left <= 0) continue;
      if (flows[f].start <= now)
        active.push_back(int(f));
      else
        next = std::min(next, flows[f].start);
    }
    if (active.empty() && !std::isfinite(next)) return;
    const auto rate = fair_rates(flows, active, room);
    for (const int f : active)
      next = std::min(next, now + flows[std::size_t(f)].left / rate[std::size_t(f)]);
    for (const int f : active) {
      Flow& flow = flows[std::size_t(f)];
      const double end = now + flow.left / rate[std::size_t(f)];
      flow.left -= rate[std::size_t(f)] * (next - now);
      if (end > next * (1 + 1e-14)) continue;
      flow.left = 0;
      flow.finish = next;
    }
    now = next;
  }
}

Rig random_machine(std::mt19937& random) {
  std::uniform_real_distribution<double> exponent(9.0, 12.0);
  const auto rate = [&] { return BytesPerSecond{std::pow(10.0, exponent(random))}; };
  Rig rig = fixtures::machine({.gpus = kGpus});
  rig.ssd.sequential_read.value = rate();
  rig.ram.bandwidth.value = rate();
  for (std::size_t g = 0; g < kGpus; ++g) {
    rig.gpus[g].bandwidth.value = rate();
    for (auto* figure : {&rig.links[g].h2d, &rig.links[g].d2h, &rig.links[g].pageable})
      figure->value = rate();
  }
  return rig;
}

// The worst relative error of one mix of 1 to 12 flows.
double mix_error(std::mt19937& random) {
  const Rig rig = random_machine(random);
  set_machine(rig);
  std::uniform_int_distribution<int> count(1, 12), route(0, kRouteCount - 1), gpu(0, kGpus - 1);
  std::uniform_real_distribution<double> exponent(8.0, 11.0), delay(0.01, 2.0);
  std::bernoulli_distribution late(0.5);
  Graph graph;
  std::vector<Flow> flows;
  std::vector<NodeId> nodes;
  for (int i = count(random); i > 0; --i) {
    const Route r = Route(route(random));
    const int g = gpu(random);
    Flow flow{links_of(r, g), late(random) ? delay(random) : 0.0,
              std::round(std::pow(10.0, exponent(random))), 0};
    const NodeId node = graph.flow(r, g, Bytes{flow.left});
    if (flow.start > 0) graph.order(graph.work(Worker::kDelay, 0, Seconds{flow.start}), node);
    flows.push_back(std::move(flow));
    nodes.push_back(node);
  }
  graph.run();
  solve(flows, capacities(rig));
  double worst = 0;
  for (std::size_t i = 0; i < flows.size(); ++i)
    worst = std::max(worst, std::fabs(graph.finish(nodes[i]).value / flows[i].finish - 1));
  return worst;
}

}  // namespace

TEST_CASE("random mixes of flows share every link max-min", "[oracle]") {
  std::mt19937 random(20240607);
  double worst = 0;
  for (int i = 0; i < 300; ++i) worst = std::max(worst, mix_error(random));
  UNSCOPED_INFO("worst relative error of 300 mixes: " << worst);
  CHECK(worst <= 1e-6);
}

TEST_CASE("the solver itself gives the shares of a worked example", "[oracle]") {
  // A 25 GB copy over RAM and link (25 GB/s), an 80 GB reader of RAM (80 GB/s): 1 s and 1.3125 s.
  std::vector<Flow> flows{{{0, 1}, 0, 25e9, 0}, {{0}, 0, 80e9, 0}};
  solve(flows, {80e9, 25e9});
  CHECK(flows[0].finish == Approx(1.0).epsilon(1e-12));
  CHECK(flows[1].finish == Approx(1.3125).epsilon(1e-12));
}
