#pragma once
// What a runtime's server adds to a scenario: its scheduler, and what is not forecast of it.

#include <optional>
#include <string>
#include <vector>

#include "core/catalogue/find_model.hpp"
#include "core/hardware/rig.hpp"
#include "core/model/kv_bytes.hpp"
#include "core/model/model_spec.hpp"
#include "core/model/tensor_table.hpp"
#include "core/runtime/runtime_profile.hpp"
#include "core/text/toml_reader.hpp"

namespace rigcast {

/// `[scheduler]` of a scenario, on top of the runtime's own rules; nullopt: it has no server.
/// `batch`, `ubatch`: tokens of a step, of a server with slots, and of rigcast's.
std::optional<SchedulerPolicy> read_server_rules(const TomlTable& root,
                                                 const RuntimeProfile& runtime, const Rig& rig,
                                                 TokenCount batch, TokenCount ubatch);

/// The stages of a scenario's pipeline. Refuses what is not forecast of one.
void take_stages(const TomlTable& root, const GpuGroups& groups, SchedulerPolicy& policy);

/// Settings of a runtime that follow from the steps of its server.
struct StepSettings {
  int batch = 0, ubatch = 0;
  bool op_offload = false;
};
/// Of `stated` settings, those of the server's steps; rigcast's host computes its parts of prompts,
/// too. Refuses a table `runtime` that asks for a GPU there.
StepSettings step_settings(const TomlTable& table, const RuntimeProfile& runtime,
                           const SchedulerPolicy& policy, const StepSettings& stated);

/// What of a scenario decides how its load is served.
struct LoadSettings {
  KvPolicy policy = KvPolicy::kVram;
  KvTypes cache, cold;      // cold: of evicted blocks
  bool hands_over = false;  // the host decodes what a GPU has prefilled
  bool on_gpu = false;      // a GPU computes, where there is one
};
/// Refuses a load whose cache or devices rigcast's engine has for one sequence alone. Returns what
/// else is to be known of the load's forecast.
std::vector<std::string> check_load(const TomlTable& root, const RuntimeProfile& runtime,
                                    const Rig& rig, const LoadSettings& settings);

/// That one request has no use for a cache in RAM or on disk.
std::vector<std::string> notes_on_unused_tiers(const TomlTable& root);

/// Whose formats the runtime's models are in.
WeightFormats weight_formats(const RuntimeProfile& runtime);
/// Refuses weights in a format that only servers of safetensors read, of a runtime that is none.
void refuse_formats_of_others(const TomlTable& model, const RuntimeProfile& runtime,
                              const TensorTable& tensors);

/// The same of types of the KV cache.
void refuse_cache_of_others(const TomlTable& kv, const RuntimeProfile& runtime, KvTypes cache);

/// GPU layers of a server with a pool of blocks: all. Refuses fewer, and experts or FFNs in RAM.
int paged_gpu_layers(const TomlTable& placement, const RuntimeProfile& runtime,
                     const ModelSpec& model, std::optional<int> stated);

/// Refuses formats, caches and models of which nobody measured such a server. Returns what else is
/// to be known.
std::vector<std::string> check_paged_server(const TomlTable& root, const RuntimeProfile& runtime,
                                            const ModelSpec& model, const TensorTable& tensors,
                                            KvTypes cache);

}  // namespace rigcast
