#pragma once
// GPUs that compute every layer together: those of a server with tensor parallelism, and those of a
// runtime with a split mode for it.

#include "core/catalogue/catalogue.hpp"
#include "core/scenario/scenario.hpp"
#include "core/text/toml_reader.hpp"

namespace rigcast {

/// `tensor_parallel` and `split_mode` of a scenario's placement, whose rig, runtime, model and
/// build are known. A paged server's GPUs share every layer by default, others' where a split mode
/// of their profile says so: they become one with the memory and the rates of all. Refuses what the
/// runtime has not, and GPUs of several kinds.
void share_layers(const TomlTable& placement, const Catalogue& catalogue, Scenario& s);

/// Refuses what a split mode does not take, when all else of the scenario is known.
void check_split_mode(const TomlTable& root, const Scenario& s);

}  // namespace rigcast
