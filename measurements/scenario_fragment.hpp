#pragma once
// The tables of a scenario file for a run, one function for each part of what a source states.
// Every name in them is an id of the catalogue or a word of ours: nothing stated is quoted.

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/base/error.hpp"
#include "measurements/measurement.hpp"
#include "measurements/name_resolver.hpp"
#include "measurements/parsed_notes.hpp"

namespace rigcast {

struct ModelFragment {
  std::string toml;
  std::shared_ptr<const ModelSpec> spec;
  Bytes size;  // of the tensors
};
Result<ModelFragment> model_fragment(const Measurement& m, const ParsedNotes& parsed_notes,
                                     NameResolver& resolver);

struct RigFragment {
  std::string toml;
  std::vector<GpuPart> gpus;
  std::string text;
  bool cpu_stated = false;  // and found
  bool ram_known = false;
  bool host_stated = false;  // its CPU or its RAM

  bool unified() const { return !gpus.empty() && gpus.front().unified; }
};
/// The RAM is large enough for a model of `size`: it ran.
Result<RigFragment> rig_fragment(const Measurement& m, Bytes size, NameResolver& resolver);

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

std::string runtime_fragment(const Measurement& m, const ParsedNotes& parsed_notes,
                             bool quantized_v);
std::string workload_fragment(const Measurement& m);

}  // namespace rigcast
