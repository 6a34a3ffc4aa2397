#pragma once
// The machine as SimGrid resources. SSD, RAM, each direction of each PCI-E link and each VRAM are
// links; GPUs and the CPU are hosts whose speed is one second of work a second. One engine and one
// platform per process: a scenario sets the rates of its rig and runs, and times are differences
// of the simulated clock. SimGrid appears nowhere outside sim/.

#include <array>
#include <cstdint>

#include "core/base/units.hpp"
#include "core/hardware/rig.hpp"

namespace rigcast::sim {

inline constexpr int kMaxGpus = 16;

/// The links that one flow uses together.
enum class Route : std::uint8_t {
  kSsdToRam,           // a file into the page cache
  kRam,                // the CPU reads or writes memory
  kVram,               // a GPU reads or writes its memory; on a unified chip the same as kRam
  kHostToGpu,          // RAM, PCI-E, VRAM
  kHostToGpuPageable,  // as kHostToGpu through the driver's staging buffers, at its own rate
  kGpuToHost,
};
inline constexpr int kRouteCount = 6;

/// The resource on which time is spent.
enum class Worker : std::uint8_t {
  kGpu,  // kernels, one after the other
  kCpu,
  kDelay,  // waits that block no resource: handoffs, host work, latencies
};

/// Sets the rates of a rig. Must not be called while a graph runs.
void set_machine(const Rig& rig);

}  // namespace rigcast::sim
