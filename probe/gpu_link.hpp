#pragma once
// The PCI-E link of a GPU, as the operating system reports it.

#include <filesystem>
#include <string>
#include <string_view>

#include "core/hardware/rig.hpp"

namespace rigcast::probe {

/// Generation 0: unknown.
struct GpuLink {
  PcieLink now;   // links slow down when idle: read it during copies
  PcieLink card;  // the fastest link of the card
  PcieLink slot;  // the fastest link of the slot, where known

  bool is_known() const { return now.generation > 0 && now.lanes > 0; }
  /// Fewer lanes or an older generation than the card has.
  bool is_narrower() const {
    return is_known() && (now.generation < card.generation || now.lanes < card.lanes);
  }
};

/// The generation of a PCI-E rate: "16.0 GT/s PCIe" is 4; 0 for other text, such as "Unknown".
int pcie_generation(std::string_view speed);

/// Reads the link of a GPU. `devices`: the operating system's list of PCI devices,
/// /sys/bus/pci/devices; `bus_id` as CUDA writes it, "0000:01:00.0" with letters of either case.
/// Containers may lack all of it.
GpuLink read_gpu_link(const std::filesystem::path& devices, std::string bus_id);

/// A text on a narrow link and what to do about it; empty if the link is not narrow.
std::string narrow_link(const GpuLink& link);

}  // namespace rigcast::probe
