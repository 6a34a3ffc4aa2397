#pragma once
// Measurements of a rig's GPUs by `rigcast probe`: the [[gpu_measured]] tables of a rig file.
// hwprofiles/README.md lists the keys.

#include <optional>
#include <string>
#include <vector>

#include "core/base/sourced.hpp"
#include "core/base/units.hpp"
#include "core/catalogue/catalogue.hpp"
#include "core/hardware/rig.hpp"
#include "core/text/toml_reader.hpp"

namespace rigcast {

struct GpuMeasured {
  std::string gpu;   // the part of the catalogue it was measured on
  std::string name;  // as the driver calls it
  std::optional<Sourced<Bytes>> vram_capacity;
  std::optional<Sourced<BytesPerSecond>> vram_bandwidth;  // of reads
  std::optional<Sourced<BytesPerSecond>> h2d, d2h;        // pinned memory
  std::optional<Sourced<BytesPerSecond>> pageable;        // to the GPU
  std::optional<Sourced<Seconds>> latency;                // of one copy
};

/// Errors are left in the table's document.
GpuMeasured read_gpu_measured(const TomlTable& table);

/// Measured figures of `rig`'s tables replace those of the catalogue, each table's on the first GPU
/// of its part that no table before it took. One whose part the rig lacks is left out with a
/// warning: it was measured on another GPU.
void apply_gpu_measured(const TomlTable& rig_table, const Catalogue& catalogue, Rig& rig,
                        std::vector<std::string>& warnings);

}  // namespace rigcast
