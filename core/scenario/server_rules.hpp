#pragma once
// What a runtime's server adds to a scenario: its scheduler, and what is not forecast of it.

#include <optional>
#include <string>
#include <vector>

#include "core/hardware/rig.hpp"
#include "core/model/kv_bytes.hpp"
#include "core/model/model_spec.hpp"
#include "core/model/tensor_table.hpp"
#include "core/runtime/runtime_profile.hpp"
#include "core/text/toml_reader.hpp"

namespace rigcast {

/// `[scheduler]` of a scenario, on top of the runtime's own rules; nullopt: it has no server.
/// `batch`: tokens of a step, where the server has slots.
std::optional<SchedulerPolicy> read_server_rules(const TomlTable& root,
                                                 const RuntimeProfile& runtime, const Rig& rig,
                                                 TokenCount batch);

/// GPU layers of a server with a pool of blocks: all, on one GPU. Refuses others.
int paged_gpu_layers(const TomlTable& placement, const RuntimeProfile& runtime, const Rig& rig,
                     const ModelSpec& model, std::optional<int> stated);

/// Refuses formats, caches and models of which nobody measured such a server. Returns what else is
/// to be known.
std::vector<std::string> check_paged_server(const TomlTable& root, const RuntimeProfile& runtime,
                                            const ModelSpec& model, const TensorTable& tensors,
                                            KvTypes cache);

}  // namespace rigcast
