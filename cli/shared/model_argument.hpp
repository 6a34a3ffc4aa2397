#pragma once

#include <string>

namespace rigcast::cli {

/// True if the argument for a model is a file, not a name of the catalogue: it ends in ".gguf", or
/// has a slash and exists.
bool names_model_file(const std::string& model);

}  // namespace rigcast::cli
