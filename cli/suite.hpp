#pragma once
// Scenarios that are run one after the other, and held against their forecasts.

#include <filesystem>
#include <string>
#include <vector>

#include "core/catalogue.hpp"
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
/// The file of a suite that comes with rigcast, by its name; or the path itself, if there is a
/// file. An error names those that there are.
Result<std::filesystem::path> find_suite(const std::string& name, const Catalogue& catalogue);
/// A TOML file with a list called "run".
bool is_suite(const std::filesystem::path& file);

}  // namespace rigcast::cli
