#pragma once
// Internal to this folder: the SimGrid objects behind machine.hpp.

#include <simgrid/s4u.hpp>

#include "sim/machine/copy_links.hpp"
#include "sim/machine/machine.hpp"

namespace rigcast::sim {

// SimGrid carries whole units only; a finer unit than the byte keeps rounding out of sight.
inline constexpr double kUnitsPerByte = 1024.0;
// Of what a step moves for each layer while a server's cache is copied, which is less.
inline constexpr double kCopyUnitsPerByte = 1048576.0;

/// Ways over the links of copy_links.hpp, which are apart from those of a rig's single requests.
enum class CopyRoute : std::uint8_t {
  kToRam,     // a copy's own rate, d2h, RAM
  kFromRam,   // a copy's own rate, h2d, RAM
  kExchange,  // an all-reduce's own rate, both directions of the GPUs' links
  kStream,    // h2d, RAM
  kRead,      // RAM
};
inline constexpr std::size_t kCopyRouteCount = 5;

class Platform {
 public:
  static Platform& instance();

  void set_rates(const Rig& rig);
  void set_memory_nodes(int nodes, BytesPerSecond local, BytesPerSecond remote);
  void set_copy_links(const CopyLinks& rates);

  simgrid::s4u::Host* worker(Worker worker, int gpu) const;
  struct RouteEndpoints {
    simgrid::s4u::Host* from;
    simgrid::s4u::Host* to;
  };
  /// `index`: a GPU; of kNodeRead, reader * kMaxMemoryNodes + memory.
  RouteEndpoints route(Route route, int index) const;
  RouteEndpoints copy_route(CopyRoute route) const { return copy_routes_[std::size_t(route)]; }

 private:
  Platform();
  struct GpuLinks {
    simgrid::s4u::Link *vram, *h2d, *d2h, *pageable;
  };
  simgrid::s4u::Link* make_link(const std::string& name);
  RouteEndpoints make_route(const std::string& name, std::vector<simgrid::s4u::Link*> links);
  void make_nodes();
  void make_copy_links();

  simgrid::s4u::NetZone* zone_ = nullptr;
  simgrid::s4u::Link* ssd_ = nullptr;
  simgrid::s4u::Link* ram_ = nullptr;
  std::array<GpuLinks, kMaxGpus> gpu_links_{};
  std::array<simgrid::s4u::Host*, kMaxGpus> gpu_hosts_{};
  simgrid::s4u::Host* cpu_ = nullptr;
  simgrid::s4u::Host* delay_ = nullptr;
  std::array<std::array<RouteEndpoints, kMaxGpus>, kRouteCount> routes_{};
  std::array<simgrid::s4u::Link*, kMaxMemoryNodes> node_memory_{}, node_way_out_{};  // node 0: ram_
  std::array<RouteEndpoints, kMaxMemoryNodes * kMaxMemoryNodes> node_routes_{};
  bool unified_ = false;
  struct {
    simgrid::s4u::Link *h2d, *d2h, *ram, *to_ram, *from_ram, *exchange;
  } copy_links_{};
  CopyLinks copy_rates_{};
  std::array<RouteEndpoints, kCopyRouteCount> copy_routes_{};
};

}  // namespace rigcast::sim
