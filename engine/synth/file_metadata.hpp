#pragma once
// Metadata of GGUF files, as llama.cpp reads them, for every architecture whose files are written.

#include <optional>

#include "core/base/error.hpp"
#include "core/model/model_spec.hpp"
#include "engine/gguf/header.hpp"

namespace rigcast::engine {

/// Why no file of this model can be written: its architecture has keys or tensors that are not
/// known here, or llama.cpp would not load so few layers of it. nullopt: one can.
std::optional<Error> check_file_architecture(const ModelSpec& model);

/// Adds the keys of the model's architecture. What a ModelSpec does not say (scales of logits,
/// which part of a head RoPE turns, ...) has a value that changes nothing, or the usual one: random
/// weights have no answer that it could spoil. Precondition: check_file_architecture found nothing.
void set_file_metadata(GgufHeader& header, const ModelSpec& model);

}  // namespace rigcast::engine
