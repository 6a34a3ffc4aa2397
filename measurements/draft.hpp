#pragma once
// The tables of a scenario file for a run, one function for each part of what a source states.
// Every name in them is an id of the catalogue or a word of ours: nothing stated is quoted.

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/base/error.hpp"
#include "measurements/lookup.hpp"
#include "measurements/measurement.hpp"
#include "measurements/notes.hpp"

namespace rigcast {

struct ModelDraft {
  std::string toml;
  std::shared_ptr<const ModelSpec> spec;
  Bytes size;  // of the tensors
};
Result<ModelDraft> draft_model(const Measurement& m, const NotedSettings& noted, Lookup& lookup);

struct RigDraft {
  std::string toml;
  std::vector<GpuPart> gpus;
  std::string text;
  bool cpu_stated = false;  // and found
  bool ram_known = false;
  bool host_stated = false;  // its CPU or its RAM

  bool unified() const { return !gpus.empty() && gpus.front().unified; }
};
/// The RAM is large enough for a model of `size`: it ran.
Result<RigDraft> draft_rig(const Measurement& m, Bytes size, Lookup& lookup);

struct PlacementDraft {
  std::string toml;  // [placement] and [kv]
  bool kv_in_ram = false;
  bool experts_in_ram = false;
  bool layers_on_host = false;
  bool quantized_kv = false;
  bool quantized_v = false;
  bool automatic = false;  // nothing stated: as much on the GPU as fits
};
/// `experts_in_ram`: so many layers keep their experts in RAM, where nothing is stated.
Result<PlacementDraft> draft_placement(const Measurement& m, const NotedSettings& noted,
                                       const ModelSpec& model, const RigDraft& rig,
                                       std::optional<int> experts_in_ram = std::nullopt);

std::string draft_runtime(const Measurement& m, const NotedSettings& noted, bool quantized_v);
std::string draft_workload(const Measurement& m);

}  // namespace rigcast
