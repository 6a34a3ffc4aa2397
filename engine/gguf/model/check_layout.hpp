#pragma once
// A check of a file's metadata against its tensors.

#include <optional>
#include <string>

#include "core/base/error.hpp"
#include "core/model/model_spec.hpp"
#include "engine/gguf/file.hpp"

namespace rigcast::engine {

/// The first contradiction: a layer without tensors, a tensor of a layer that the model does not
/// have, k matrices or experts of other shapes; of llama, qwen2, qwen3 and qwen3moe any tensor that
/// is missing or of another shape.
std::optional<Error> check_layout(const GgufFile& file, const ModelSpec& spec);

std::string shape_text(const TensorInfo& tensor);  // "4096 x 1024"

}  // namespace rigcast::engine
