#include "tests/paths.hpp"

namespace rigcast::test {

const std::string& source_dir() {
  static const std::string path = RIGCAST_SOURCE_DIR;
  return path;
}

std::string source_path(std::string_view below) { return source_dir() + std::string(below); }

const std::string& program() {
  static const std::string path = RIGCAST_PROGRAM;
  return path;
}

}  // namespace rigcast::test
