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

  // What no forecast uses yet:
  std::optional<Sourced<BytesPerSecond>> vram_copy;  // bytes read and written
  std::optional<Sourced<BytesPerSecond>> both;       // both directions of the link together
  // Of a kernel that does nothing: in a row, in a graph's row, set up before the one ahead of it
  // ends, and alone with the host waiting. Then from the GPU to the host and back.
  std::optional<Sourced<Seconds>> launch, launch_in_graph, launch_dependent, launch_waited, handoff;
  struct Copies {
    std::string direction, memory;  // "h2d" or "d2h"; "pinned" or "pageable"
    std::vector<double> kib, us;    // size of a copy, and its time until the host knows
  };
  std::vector<Copies> copies;
  struct Products {
    std::string type;  // "f16", "bf16", "int8"
    std::int64_t rows = 0, columns = 0;
    std::vector<double> tokens, gflop_per_s;  // size of the batch, and the rate
  };
  std::vector<Products> products;
};

/// Errors are left in the table's document.
GpuMeasured read_gpu_measured(const TomlTable& table);

/// Measured figures of `rig`'s tables replace those of the catalogue, each table's on the first GPU
/// of its part that no table before it took. One whose part the rig lacks is left out with a
/// warning: it was measured on another GPU.
void apply_gpu_measured(const TomlTable& rig_table, const Catalogue& catalogue, Rig& rig,
                        std::vector<std::string>& warnings);

}  // namespace rigcast
