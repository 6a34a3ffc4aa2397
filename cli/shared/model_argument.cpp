#include "cli/shared/model_argument.hpp"

#include <filesystem>

namespace rigcast::cli {

bool names_model_file(const std::string& model) {
  std::error_code ignored;
  return model.ends_with(".gguf") ||
         (model.find('/') != std::string::npos && std::filesystem::exists(model, ignored));
}

}  // namespace rigcast::cli
