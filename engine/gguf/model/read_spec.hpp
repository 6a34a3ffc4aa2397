#pragma once
// Reads facts of a model from a GGUF file. Figures come from the metadata, traits from the tensors;
// the two are checked against each other.

#include "core/base/error.hpp"
#include "core/model/model_spec.hpp"
#include "engine/gguf/file.hpp"

namespace rigcast::engine {

/// Reads the spec of any architecture whose file follows the common keys and names. Errors: keys
/// that are missing, out of range or contradictory; figures that differ from layer to layer;
/// recurrent layers; layers without tensors, tensors without layers; matrices of other shapes. For
/// llama, qwen2, qwen3 and qwen3moe every tensor's shape is checked.
Result<ModelSpec> read_spec(const GgufFile& file);

}  // namespace rigcast::engine
