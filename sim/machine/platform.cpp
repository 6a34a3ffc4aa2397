#include "sim/machine/platform.hpp"

#include <fmt/format.h>

#include <csignal>
#include <memory>
#include <utility>

namespace sg = simgrid::s4u;

namespace rigcast::sim {
namespace {

// SimGrid's defaults describe TCP over a network: a bus has no slow start, no window and no
// acknowledgement traffic, and events a nanosecond apart are not the same event.
sg::Engine& engine() {
  static std::string words[] = {"rigcast",
                                "--log=root.thresh:warning",
                                "--cfg=network/model:CM02",
                                "--cfg=network/crosstraffic:no",
                                "--cfg=network/TCP-gamma:0",
                                "--cfg=surf/precision:1e-12"};
  static char* argv[] = {words[0].data(), words[1].data(), words[2].data(), words[3].data(),
                         words[4].data(), words[5].data(), nullptr};
  static int argc = 6;
  static const auto instance = [] {
    struct sigaction before {};
    sigaction(SIGINT, nullptr, &before);
    auto made = std::make_unique<sg::Engine>(&argc, argv);
    sigaction(SIGINT, &before, nullptr);  // SimGrid's handler would exit with 1, which means an
                                          // answer of no
    return made;
  }();
  return *instance;
}

constexpr double kInitialRate = 1e12;
constexpr int kDelayCores = 1 << 16;

}  // namespace

Platform& Platform::instance() {
  engine();
  static Platform platform;
  return platform;
}

sg::Link* Platform::make_link(const std::string& name) {
  return zone_->create_link(name, kInitialRate)->set_latency(0.0)->seal();
}

Platform::RouteEndpoints Platform::make_route(const std::string& name,
                                              std::vector<sg::Link*> links) {
  RouteEndpoints ends{zone_->create_host(name + " from", 1.0),
                      zone_->create_host(name + " to", 1.0)};
  const std::vector<sg::LinkInRoute> in_route(links.begin(), links.end());
  zone_->add_route(ends.from->get_netpoint(), ends.to->get_netpoint(), nullptr, nullptr, in_route,
                   false);
  return ends;
}

void Platform::make_nodes() {
  for (int memory = 0; memory < kMaxMemoryNodes; ++memory) {
    const auto m = std::size_t(memory);
    node_memory_[m] = memory == 0 ? ram_ : make_link(fmt::format("node{} memory", memory));
    node_way_out_[m] = make_link(fmt::format("node{} way out", memory));
    for (int reader = 0; reader < kMaxMemoryNodes; ++reader) {
      std::vector<sg::Link*> links{node_memory_[m]};
      if (reader != memory) links.push_back(node_way_out_[m]);
      node_routes_[std::size_t(reader * kMaxMemoryNodes + memory)] =
          make_route(fmt::format("node{} reads node{}", reader, memory), links);
    }
  }
}

void Platform::make_copy_links() {
  auto& l = copy_links_;
  l = {make_link("server h2d"),    make_link("server d2h"),      make_link("server ram"),
       make_link("copies to ram"), make_link("copies from ram"), make_link("all-reduces")};
  const auto set = [&](CopyRoute route, const char* name, std::vector<sg::Link*> links) {
    copy_routes_[std::size_t(route)] = make_route(name, std::move(links));
  };
  set(CopyRoute::kToRam, "copy to ram", {l.to_ram, l.d2h, l.ram});
  set(CopyRoute::kFromRam, "copy from ram", {l.from_ram, l.h2d, l.ram});
  set(CopyRoute::kExchange, "all-reduce", {l.exchange, l.h2d, l.d2h});
  set(CopyRoute::kStream, "streamed", {l.h2d, l.ram});
  set(CopyRoute::kRead, "read by the cpu", {l.ram});
}

Platform::Platform() {
  zone_ = sg::create_full_zone("machine");
  ssd_ = make_link("ssd");
  ram_ = make_link("ram");
  cpu_ = zone_->create_host("cpu", 1.0);
  delay_ = zone_->create_host("delay", 1.0)->set_core_count(kDelayCores);
  const RouteEndpoints file = make_route("file", {ssd_, ram_});
  const RouteEndpoints ram = make_route("ram", {ram_});
  make_nodes();
  make_copy_links();
  for (int g = 0; g < kMaxGpus; ++g) {
    const auto named = [&](const char* what) { return fmt::format("gpu{} {}", g, what); };
    GpuLinks& l = gpu_links_[std::size_t(g)];
    l = {make_link(named("vram")), make_link(named("h2d")), make_link(named("d2h")),
         make_link(named("pageable"))};
    gpu_hosts_[std::size_t(g)] = zone_->create_host(named("kernels"), 1.0);
    const auto set = [&](Route r, RouteEndpoints ends) {
      routes_[std::size_t(r)][std::size_t(g)] = ends;
    };
    set(Route::kSsdToRam, file);
    set(Route::kRam, ram);
    set(Route::kVram, make_route(named("read"), {l.vram}));
    set(Route::kHostToGpu, make_route(named("in"), {ram_, l.h2d, l.vram}));
    set(Route::kHostToGpuPageable, make_route(named("staged"), {ram_, l.pageable, l.h2d, l.vram}));
    set(Route::kGpuToHost, make_route(named("out"), {l.vram, l.d2h, ram_}));
  }
  zone_->seal();
}

void Platform::set_rates(const Rig& rig) {
  RIGCAST_ASSERT(rig.gpus.size() <= std::size_t(kMaxGpus));
  const auto set = [](sg::Link* link, BytesPerSecond rate) {
    link->set_bandwidth(rate.value * kUnitsPerByte);
  };
  unified_ = rig.unified();
  set(ssd_, rig.ssd.sequential_read.value);
  set(ram_, rig.ram.bandwidth.value);
  for (std::size_t g = 0; g < rig.gpus.size(); ++g) {
    set(gpu_links_[g].vram, rig.gpus[g].bandwidth.value);
    set(gpu_links_[g].h2d, rig.links[g].h2d.value);
    set(gpu_links_[g].d2h, rig.links[g].d2h.value);
    set(gpu_links_[g].pageable, rig.links[g].pageable.value);
  }
}

void Platform::set_memory_nodes(int nodes, BytesPerSecond local, BytesPerSecond remote) {
  RIGCAST_ASSERT(nodes >= 1 && nodes <= kMaxMemoryNodes);
  for (std::size_t n = 0; n < std::size_t(nodes); ++n) {
    node_memory_[n]->set_bandwidth(local.value * kUnitsPerByte);
    node_way_out_[n]->set_bandwidth(remote.value * kUnitsPerByte);
  }
}

void Platform::set_copy_links(const CopyLinks& rates) {
  if (rates == copy_rates_) return;
  copy_rates_ = rates;
  const auto set = [](sg::Link* link, BytesPerSecond rate) {
    if (rate.value > 0) link->set_bandwidth(rate.value * kCopyUnitsPerByte);
  };
  set(copy_links_.h2d, rates.h2d);
  set(copy_links_.d2h, rates.d2h);
  set(copy_links_.ram, rates.ram);
  set(copy_links_.to_ram, rates.to_ram);
  set(copy_links_.from_ram, rates.from_ram);
  set(copy_links_.exchange, rates.exchange);
}

sg::Host* Platform::worker(Worker worker, int gpu) const {
  switch (worker) {
    case Worker::kGpu: return gpu_hosts_[std::size_t(gpu)];
    case Worker::kCpu: return cpu_;
    case Worker::kDelay: return delay_;
  }
  return delay_;
}

Platform::RouteEndpoints Platform::route(Route route, int index) const {
  if (route == Route::kNodeRead) return node_routes_[std::size_t(index)];
  if (unified_ && route == Route::kVram) route = Route::kRam;
  return routes_[std::size_t(route)][std::size_t(index)];
}

void set_machine(const Rig& rig) { Platform::instance().set_rates(rig); }

void set_memory_nodes(int nodes, BytesPerSecond local, BytesPerSecond remote) {
  Platform::instance().set_memory_nodes(nodes, local, remote);
}

}  // namespace rigcast::sim
