#pragma once
// Scenarios that are run one after the other, and held against their forecasts.

#include <filesystem>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "core/toml_reader.hpp"

namespace rigcast::cli {

struct SuiteRun {
  std::string name;
  TomlDocument scenario;
  bool file = false;  // also warm and cold starts, from a file that is written for it
};

/// [[run]] with `name`; `flags` as after `rigcast run`, or `scenario`, a file beside the suite;
/// and, if wanted, `file = true`.
Result<std::vector<SuiteRun>> read_suite(const std::filesystem::path& file);
/// A TOML file with a list called "run".
bool is_suite(const std::filesystem::path& file);

}  // namespace rigcast::cli
