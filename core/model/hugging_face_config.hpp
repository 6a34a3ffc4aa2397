#pragma once
// A model's shape from the config.json of its Hugging Face repository.

#include <filesystem>
#include <string>
#include <string_view>

#include "core/base/error.hpp"
#include "core/model/model_spec.hpp"

namespace rigcast {

/// The spec of a config.json. Its id is the name of the folder, where that is not the working
/// folder. Errors name the file, the key and the range; an architecture that is not in the table,
/// or a variant whose tensors a ModelSpec cannot express, is an Error.
Result<ModelSpec> read_hugging_face_config(const std::filesystem::path& file);

/// The same from text; `file` is what errors name.
Result<ModelSpec> parse_hugging_face_config(std::string_view text, const std::string& file);

}  // namespace rigcast
