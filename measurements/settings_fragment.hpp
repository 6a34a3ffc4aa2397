#pragma once
// [placement], [kv], [runtime] and [workload] of a run's scenario.
// Every name in them is an id of the catalogue or a word of ours: nothing stated is quoted.

#include <optional>
#include <string>

#include "core/base/error.hpp"
#include "measurements/measurement.hpp"
#include "measurements/parsed_notes.hpp"
#include "measurements/rig_fragment.hpp"

namespace rigcast {

struct PlacementFragment {
  std::string toml;  // [placement] and [kv]
  bool kv_in_ram = false;
  bool experts_in_ram = false;
  bool layers_on_host = false;
  bool quantized_kv = false;
  bool quantized_v = false;
  bool automatic = false;  // nothing stated: as much on the GPU as fits
};
/// `experts_in_ram`: so many layers keep their experts in RAM, where nothing is stated.
Result<PlacementFragment> placement_fragment(const Measurement& m, const ParsedNotes& parsed_notes,
                                             const ModelSpec& model, const RigFragment& rig,
                                             std::optional<int> experts_in_ram = std::nullopt);

/// True if the runtime itself placed the layers so that 1024 MiB of each GPU stay free, and
/// shortened the context for it: llama.cpp since 2025-12 (PR 16653), not Ollama or ik_llama.cpp.
bool leaves_headroom(const Measurement& m, const ParsedNotes& parsed_notes,
                     const PlacementFragment& placement);

std::string runtime_fragment(const Measurement& m, const ParsedNotes& parsed_notes,
                             bool quantized_v, bool leaves_headroom);
std::string workload_fragment(const Measurement& m, const ParsedNotes& parsed_notes,
                              bool leaves_headroom);

}  // namespace rigcast
