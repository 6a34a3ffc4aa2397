#pragma once
// What the operating system tells of the slot that a GPU is in.

#include <filesystem>
#include <string>
#include <string_view>

#include "core/hardware/rig.hpp"

namespace rigcast::probe {

/// Generation 0: not told.
struct GpuLink {
  PcieLink now;   // links slow down while nothing is copied: ask while something is
  PcieLink card;  // the most that the card can do
  PcieLink slot;  // the most that the slot can do, where that is told

  bool is_told() const { return now.generation > 0 && now.lanes > 0; }
  /// Fewer lanes or an older generation than the card has.
  bool is_narrower() const {
    return is_told() && (now.generation < card.generation || now.lanes < card.lanes);
  }
};

/// "16.0 GT/s PCIe" is generation 4; 0 for what is no rate of PCI-E, such as "Unknown".
int pcie_generation(std::string_view speed);

/// `devices` is where the kernel lists PCI devices, /sys/bus/pci/devices; `bus_id` as CUDA writes
/// it, "0000:01:00.0" with letters of either case. Containers may lack all of it.
GpuLink read_gpu_link(const std::filesystem::path& devices, std::string bus_id);

/// In words, what is narrower and what to do about it; empty if nothing is.
std::string narrow_link(const GpuLink& link);

}  // namespace rigcast::probe
