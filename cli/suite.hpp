#pragma once
// Scenarios that are run one after the other, and held against their forecasts.

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "cli/executed.hpp"
#include "core/base/error.hpp"
#include "core/catalogue/catalogue.hpp"
#include "core/text/toml_reader.hpp"

namespace rigcast::cli {

struct SuiteRun {
  std::string name;
  TomlDocument scenario;
  bool file = false;            // also warm and cold starts, from a file that is written for it
  std::optional<int> repeat{};  // timed runs; absent: as asked for
};

struct Suite {
  Device device = Device::kCpu;
  std::vector<SuiteRun> runs;
  std::filesystem::path file{};  // empty: one scenario that was named itself
};

/// `device`, "cpu" or "cuda", which may be left out; then [[run]] with `name`; `flags` as after
/// `rigcast run`, or `scenario`, a file beside the suite; and, if wanted, `file = true`, `repeat`.
Result<Suite> read_suite(const std::filesystem::path& file);
/// The file of a suite that comes with rigcast, by its name, where a GPU is there "quick-gpu"
/// before "quick"; or the path itself, if there is a file. An error names those that there are.
Result<std::filesystem::path> find_suite(const std::string& name, bool gpu,
                                         const Catalogue& catalogue);
/// A TOML file with a list called "run".
bool is_suite(const std::filesystem::path& file);

}  // namespace rigcast::cli
