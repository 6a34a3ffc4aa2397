#pragma once
// GPUs of a machine without a measurement: by nvidia-smi, by sysfs with the names of pci.ids, by
// system_profiler.

#include <string>
#include <vector>

#include "core/base/units.hpp"
#include "core/hardware/rig.hpp"
#include "probe/detect/system.hpp"

namespace rigcast::probe {

struct DetectedGpu {
  std::vector<std::string> names;  // one, or those that a chip may be sold as
  Bytes memory;                    // 0: not told
  PcieLink link;                   // of card and slot; 0 lanes: not told
};

/// Discrete and integrated ones, in the order of the drivers.
std::vector<DetectedGpu> detect_gpus(const System& system);

/// The device's name in the database of lspci (pci.ids); empty: there is none, or it lacks the
/// device. Ids without "0x": "1002", "744c".
std::string pci_name(const System& system, const std::string& vendor, const std::string& device);

}  // namespace rigcast::probe
