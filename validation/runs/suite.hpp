#pragma once
// Scenarios that are run one after the other, and held against their forecasts.

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "core/base/error.hpp"
#include "core/catalogue/catalogue.hpp"
#include "core/text/toml_reader.hpp"
#include "engine/backends/backend.hpp"

namespace rigcast::validation {

struct SuiteRun {
  std::string name;
  TomlDocument scenario;
  bool file = false;            // also warm and cold starts, from a file that is written for it
  std::optional<int> repeat{};  // timed runs; absent: as asked for
  int table = 0;                // of the suite's [[run]] tables, from which it is
};

struct Suite {
  const engine::EngineBackend* backend = &engine::cpu_backend();
  std::vector<SuiteRun> runs;
  std::filesystem::path file{};  // empty: one scenario that was named itself
};

/// `device`, the name of a backend of the engine; "cpu" where it is left out; then [[run]] with
/// `name`; `scenario`, with the tables of a scenario file or the name of one beside the suite; and,
/// if wanted, `file = true`, `repeat`, and `vary = { "workload.depth" = [0, 4096] }`: a run for
/// each combination of such values, by keys in alphabetical order, the last one's changing first.
Result<Suite> read_suite(const std::filesystem::path& file);
/// The file of a suite that comes with rigcast, by its name, where a GPU is there "quick-gpu"
/// before "quick"; or the path itself, if there is a file. An error names those that there are.
Result<std::filesystem::path> find_suite(const std::string& name, bool gpu,
                                         const Catalogue& catalogue);
/// A TOML file with a list called "run".
bool is_suite(const std::filesystem::path& file);

}  // namespace rigcast::validation
