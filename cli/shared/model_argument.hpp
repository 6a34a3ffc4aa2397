#pragma once

#include <string>

namespace rigcast::cli {

/// Whether what was given for a model is a file, not a name of the catalogue: it ends in ".gguf",
/// or has a slash and is there.
bool names_model_file(const std::string& model);

}  // namespace rigcast::cli
