#pragma once

#include <string>

namespace rigcast::cli {

/// True if the argument for a model is a GGUF file that is there: its name ends in ".gguf", or it
/// has a slash and is no folder, spec (.toml) or config.json. All else is a name for find_model.
bool names_model_file(const std::string& model);

}  // namespace rigcast::cli
