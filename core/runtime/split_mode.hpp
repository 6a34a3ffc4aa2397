#pragma once
// Ways in which a runtime has several GPUs compute every layer together, by what its profile says
// of them. Schema: [split.*] in runtimes/README.md.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/sourced.hpp"
#include "core/base/units.hpp"
#include "core/runtime/backend.hpp"
#include "core/text/toml_reader.hpp"

namespace rigcast {

/// The split mode that every runtime has: whole layers, one GPU after the other.
inline constexpr std::string_view kSplitByLayer = "layer";

struct SplitMode {
  std::string name;              // as the runtime's flag takes it
  std::string source;            // of the flags and lists below
  std::string refused;           // why it is not forecast; empty: it is
  Sourced<double> since;         // year of the first builds with it
  Sourced<double> graphs_since;  // year from which what is computed between two exchanges for one
                                 // token is a captured graph
  std::vector<Backend> backends;
  std::vector<std::string> architectures;  // of GGUF, that it is written for; empty: all but
  std::vector<std::string> except;         // these
  bool needs_flash = false;                // it is refused without flash attention
  bool quantized_cache = true;             // it takes one
  bool fits = true;                        // the runtime can place layers by itself beside it
  Sourced<double> element;        // bytes of an activation that GPUs exchange, of one token
  Sourced<double> batch_element;  // of a prompt's batch
  Sourced<double> launches;       // of each GPU for an exchange, outside of a captured graph
  bool one_thread = false;        // launches the kernels of all GPUs
  /// Time of a small all-reduce through the host's memory in builds of before `host_latency_until`;
  /// absent: as the interconnect has it.
  std::optional<Sourced<Seconds>> host_latency;
  Sourced<double> host_latency_until;

  bool has_architecture(std::string_view architecture) const;
};

/// The tables of `table`, each a mode under its name, but for those of which no build has any.
/// Errors land in the table's document.
std::vector<SplitMode> read_split_modes(const TomlTable& table);

/// The mode of that name; nullptr: none.
const SplitMode* find_split_mode(const std::vector<SplitMode>& modes, std::string_view name);

}  // namespace rigcast
