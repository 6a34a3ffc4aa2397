#include "validation/runs/suite.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>
#include <utility>

namespace rigcast::validation {
namespace {

// The scenario in the run's own table, or in the file beside the suite.
Result<TomlDocument> scenario_of(const TomlTable& run, const std::filesystem::path& folder) {
  if (const auto beside = run.find_text_or_none("scenario"))
    return TomlDocument::read(folder / *beside);
  run.require("scenario");
  return TomlDocument::of(run.table("scenario"));
}

constexpr std::size_t kMaxRuns = 10'000;

// "depth 4096" of workload.depth
std::string text_of(const std::string& key, const std::string& value) {
  std::string plain = value;
  std::erase_if(plain, [](char c) { return c == '"' || c == '\''; });
  return fmt::format("{} {}", key.substr(key.rfind('.') + 1), plain);
}

// The runs of every combination of the values under `vary`.
std::vector<SuiteRun> varied(const TomlTable& table, SuiteRun stated) {
  std::vector<SuiteRun> runs;
  runs.push_back(std::move(stated));
  const TomlTable vary = table.table("vary");
  for (const std::string& key : vary.keys()) {
    std::vector<SuiteRun> next;
    const std::vector<std::string> values = vary.values(key);
    if (values.empty()) vary.refuse(key, "expected a list of values, found none");
    if (values.size() * runs.size() > kMaxRuns) {
      vary.refuse(key, fmt::format("these are more than {} runs", kMaxRuns));
      return runs;
    }
    for (const SuiteRun& run : runs)
      for (const std::string& value : values) {
        SuiteRun one{run.name + ", " + text_of(key, value), run.scenario.clone(), run.file,
                     run.repeat, run.table};
        if (auto error = one.scenario.set(key, value, vary.path(key))) vary.refuse(key, *error);
        next.push_back(std::move(one));
      }
    runs = std::move(next);
  }
  return runs;
}

}  // namespace

Result<std::filesystem::path> find_suite(const std::string& name, bool gpu,
                                         const Catalogue& catalogue) {
  namespace fs = std::filesystem;
  std::error_code none;
  if (fs::is_regular_file(name, none)) return fs::path(name);
  std::map<std::string, fs::path> suites;
  for (const auto& entry : fs::directory_iterator(catalogue.root() / "examples/suites", none))
    suites.emplace(entry.path().stem().string(), entry.path());
  const auto found = suites.find(name);
  const auto on_gpu = gpu ? suites.find(name + "-gpu") : suites.end();
  if (on_gpu != suites.end()) return on_gpu->second;
  if (found != suites.end()) return found->second;
  std::vector<std::string> names;
  for (const auto& [known, file] : suites) names.push_back(known);
  return bad_input(fmt::format("--suite: there is no suite \"{}\"", name),
                   suites.empty() ? "a file with [[run]] tables"
                                  : fmt::format("{}, or a file", fmt::join(names, ", ")));
}

bool is_suite(const std::filesystem::path& file) {
  const auto document = TomlDocument::read(file);
  return document && document->has("run");
}

Result<Suite> read_suite(const std::filesystem::path& file) {
  const auto document = TomlDocument::read(file);
  if (!document) return document.error();
  Suite suite;
  suite.file = file;
  const TomlTable root = document->root();
  if (const auto device = root.find_text("device")) {
    const auto backend = engine::built_in_backends().find(*device);
    if (backend)
      suite.backend = *backend;
    else
      root.refuse("device", backend.error());
  }
  int tables = 0;
  for (const TomlTable& t : root.tables("run")) {
    const std::string name = t.text("name");
    auto scenario = scenario_of(t, file.parent_path());
    if (!scenario) {
      t.refuse("scenario", scenario.error());
      continue;
    }
    SuiteRun run{name, *std::move(scenario), t.flag("file", false), {}, tables++};
    if (t.has("repeat")) run.repeat = int(t.integer("repeat", 1, 1000));
    for (SuiteRun& one : varied(t, std::move(run))) suite.runs.push_back(std::move(one));
    t.finish();
  }
  root.finish();
  if (auto error = document->error()) return *error;
  if (suite.runs.empty())
    return bad_input(
        "there are no runs in this suite",
        "[[run]] with name = \"...\" and scenario.model.name = \"...\", or scenario = \"FILE\"",
        SourceRef{file.string()});
  return suite;
}

}  // namespace rigcast::validation
