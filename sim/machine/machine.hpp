#pragma once
// The machine as SimGrid resources. SSD, RAM, each direction of each PCI-E link and each VRAM are
// links; so are, of a machine with several memory nodes, the memory of each and its way to the
// cores of the others. GPUs and the CPU are hosts whose speed is one second of work a second. One
// engine and one platform per process: a scenario sets the rates of its rig and runs, and times are
// differences of the simulated clock. SimGrid appears nowhere outside
// this folder.

#include <array>
#include <cstdint>

#include "core/base/units.hpp"
#include "core/hardware/rig.hpp"

namespace rigcast::sim {

inline constexpr int kMaxGpus = 16;
inline constexpr int kMaxMemoryNodes = 8;

/// The links that one flow uses together.
enum class Route : std::uint8_t {
  kSsdToRam,           // a file into the page cache
  kRam,                // the CPU reads or writes memory
  kVram,               // a GPU reads or writes its memory; on a unified chip the same as kRam
  kHostToGpu,          // RAM, PCI-E, VRAM
  kHostToGpuPageable,  // as kHostToGpu through the driver's staging buffers, at its own rate
  kGpuToHost,
  kNodeRead,  // cores of a memory node read the memory of one: of Graph::read_nodes()
};
inline constexpr int kRouteCount = 6;  // of them, those of a GPU each

/// The resource on which time is spent.
enum class Worker : std::uint8_t {
  kGpu,  // kernels, one after the other
  kCpu,
  kDelay,  // waits that block no resource: handoffs, host work, latencies
};

/// Sets the rates of a rig, whose RAM is one link. Must not be called while a graph runs.
void set_machine(const Rig& rig);
/// After set_machine(): RAM is `nodes` memories of rate `local`, of which the cores of the other
/// nodes together read no more than `remote`. Copies from and to GPUs and files use the first one.
/// At most kMaxMemoryNodes. Must not be called while a graph runs.
void set_memory_nodes(int nodes, BytesPerSecond local, BytesPerSecond remote);

}  // namespace rigcast::sim
