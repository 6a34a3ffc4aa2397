#include "cli/shared/model_argument.hpp"

#include <filesystem>

namespace rigcast::cli {

bool names_model_file(const std::string& model) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  const bool is_spec = model.ends_with(".toml") || model.ends_with(".json");
  if (is_spec || !fs::exists(model, ignored)) return false;
  if (model.ends_with(".gguf")) return true;
  const bool is_path = model.find('/') != std::string::npos;
  return is_path && !fs::exists(fs::path(model) / "config.json", ignored);
}

}  // namespace rigcast::cli
