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

/// The name as it stands, then ever simpler ones: without maker, size, annotations. A line of lspci
/// is the product in it.
std::vector<std::string> simpler_gpu_names(const std::string& name);
/// The simplest of them: "RTX 5060 Ti" for "NVIDIA GeForce RTX 5060 Ti 16GB".
std::string gpu_family(const std::string& name);
/// The name has a size of memory or a number of cores, which tell cards of a family apart.
bool states_gpu_size(const std::string& name);
/// lspci names chips: "Radeon RX 7900 XT/7900 XTX" is "Radeon RX 7900 XT", "Radeon RX 7900 XTX".
std::vector<std::string> gpu_alternatives(const std::string& name);
/// A list with commas; a line of lspci, which may have commas, is one name.
std::vector<std::string> listed_gpus(const std::string& text);
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
