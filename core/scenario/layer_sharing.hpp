#pragma once
// GPUs that compute every layer together: those of a server with tensor parallelism, and those of a
// runtime with a split mode for it.

#include <optional>
#include <string>
#include <vector>

#include "core/catalogue/catalogue.hpp"
#include "core/hardware/rig.hpp"
#include "core/model/kv_bytes.hpp"
#include "core/model/model_spec.hpp"
#include "core/runtime/runtime_profile.hpp"
#include "core/text/toml_reader.hpp"

namespace rigcast {

/// What a scenario's GPUs would compute together. `build_year`: of the runtime; nullopt: the
/// newest.
struct SharedModel {
  const RuntimeProfile& runtime;
  const ModelSpec& model;
  std::optional<double> build_year;
};

/// How a scenario's GPUs divide the model. The split mode is that by layers if no other is stated
/// or there is one GPU.
struct LayerSharing {
  std::string split_mode{kSplitByLayer};
  GpuGroups groups;  // of a paged server
};

/// `tensor_parallel`, `pipeline_parallel` and `split_mode` of a scenario's placement. A paged
/// server's GPUs share every layer by default, others' where a split mode of their profile says so:
/// those that do become one with the memory and the rates of all. Refuses what the runtime has not,
/// and GPUs of several kinds.
LayerSharing share_layers(const TomlTable& placement, const SharedModel& what,
                          const Catalogue& catalogue, Rig& rig, std::vector<std::string>& warnings);

/// Layers of each stage of a pipeline, the head as one more of the last: as vLLM divides them where
/// VLLM_PP_LAYER_PARTITION says nothing (distributed/utils.py, get_pp_indices()).
std::vector<double> layers_of_stages(int layers, int stages);

/// Settings of a scenario on which it depends whether its split mode applies.
struct SplitSettings {
  Backend backend = Backend::kCuda;
  bool all_layers = true;  // are on GPUs, and the head
  bool all_ffns = true;    // none is in RAM
  KvPolicy policy = KvPolicy::kVram;
  KvTypes cache;
  bool flash_attention = true;
};

/// Refuses what the split mode does not take. Does nothing for that by layers.
void check_split_mode(const TomlTable& root, const RuntimeProfile& runtime,
                      const std::string& split_mode, const SplitSettings& settings);

}  // namespace rigcast
