#pragma once
// What a runtime's server adds to a scenario: its scheduler, and what is not forecast of it.

#include "core/scenario/scenario.hpp"

namespace rigcast {

/// `[scheduler]` of a scenario whose runtime is known, on top of the runtime's own.
void read_server_rules(const TomlTable& root, Scenario& scenario);

/// Refuses GPU layers of vLLM but all of them on one GPU.
void require_one_gpu(const TomlTable& placement, Scenario& scenario);
/// Refuses formats, caches and models of which nobody measured vLLM.
void check_vllm(const TomlTable& root, Scenario& scenario);

}  // namespace rigcast
