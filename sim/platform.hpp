#pragma once
// Internal to sim/: the SimGrid objects behind machine.hpp.

#include <simgrid/s4u.hpp>

#include "sim/machine.hpp"

namespace rigcast::sim {

// SimGrid carries whole units only; a finer unit than the byte keeps rounding out of sight.
inline constexpr double kUnitsPerByte = 1024.0;

class Platform {
 public:
  static Platform& instance();

  void set_rates(const Rig& rig);
  void set_memory_nodes(int nodes, BytesPerSecond local, BytesPerSecond remote);

  simgrid::s4u::Host* worker(Worker worker, int gpu) const;
  struct RouteEndpoints {
    simgrid::s4u::Host* from;
    simgrid::s4u::Host* to;
  };
  /// `index`: a GPU; of kNodeRead, reader * kMaxMemoryNodes + memory.
  RouteEndpoints route(Route route, int index) const;

 private:
  Platform();
  struct GpuLinks {
    simgrid::s4u::Link *vram, *h2d, *d2h, *pageable;
  };
  simgrid::s4u::Link* make_link(const std::string& name);
  RouteEndpoints make_route(const std::string& name, std::vector<simgrid::s4u::Link*> links);
  void make_nodes();

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
};

}  // namespace rigcast::sim
