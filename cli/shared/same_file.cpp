#include "cli/shared/same_file.hpp"

#include <filesystem>

namespace rigcast::cli {

namespace fs = std::filesystem;

bool is_same_file(const std::string& a, const std::string& b) {
  std::error_code ignored;
  if (fs::equivalent(a, b, ignored)) return true;
  const auto whole = [&](const std::string& path) {
    return fs::weakly_canonical(fs::absolute(path, ignored), ignored);
  };
  return whole(a) == whole(b);
}

}  // namespace rigcast::cli
