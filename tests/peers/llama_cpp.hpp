#pragma once
// llama.cpp's libraries, where scripts/llama-bench.sh left them, for tests that skip without.

#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>

#include "tests/catch.hpp"

namespace rigcast::test {

/// The folder of libllama and libggml: $LLAMA_CPP_FOLDER, or the script's for a CPU.
inline std::optional<std::string> llama_cpp_folder() {
  if (const char* named = std::getenv("LLAMA_CPP_FOLDER")) return named;
  const char* cache = std::getenv("XDG_CACHE_HOME");
  const char* home = std::getenv("HOME");
  if (!cache && !home) return std::nullopt;
  const std::string root = cache ? cache : std::string(home) + "/.cache";
  const std::string folder = root + "/rigcast/llama.cpp-cpu";
  return std::filesystem::exists(folder) ? std::optional(folder) : std::nullopt;
}

}  // namespace rigcast::test

/// Ends the test where there is no llama.cpp. ctest counts it as skipped by this text.
#define RIGCAST_NEEDS_LLAMA_CPP()                                                 \
  if (!rigcast::test::llama_cpp_folder()) {                                       \
    WARN("skipped: no llama.cpp libraries; scripts/llama-bench.sh fetches them"); \
    return;                                                                       \
  }                                                                               \
  static_cast<void>(0)
