#pragma once
// Names of parts as people and programs write them, and the catalogue names that they may stand
// for.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/units.hpp"

namespace rigcast {

/// "RTX 5090 + RTX 4090", and llama-bench's list with commas, name by name. "none" is no name.
std::vector<std::string> gpu_names(std::string_view text);

/// The name as it stands, then ever simpler ones: without maker, size, annotations.
std::vector<std::string> simpler_gpu_names(const std::string& name);
std::vector<std::string> simpler_cpu_names(const std::string& name);

/// The source says that it does not know.
bool is_unnamed(const std::string& part);

/// RAM as stated in text: "DDR4-2400, 4ch per socket", "12ch DDR5-6000 ECC", "DDR5 96GB (2 DIMM)".
struct StatedRam {
  std::string type;  // "ddr5", "lpddr5x"; empty: not stated
  std::optional<int> mega_transfers;
  std::optional<int> channels;  // of one socket if per_socket
  bool per_socket = false;
  std::optional<Bytes> capacity;
};
StatedRam stated_ram(const std::string& text);

/// PCI-E as stated in text: a slot ("4x16") for all GPUs or for each, and the rate of copies.
struct StatedPcie {
  std::vector<std::string> slots;
  std::optional<BytesPerSecond> h2d;
};
StatedPcie stated_pcie(const std::string& text, std::size_t gpus);

}  // namespace rigcast
