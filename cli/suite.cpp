#include "cli/suite.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <utility>

#include "cli/output.hpp"
#include "cli/scenario_flags.hpp"

namespace rigcast::cli {
namespace {

Result<TomlDocument> scenario_of(const std::string& flags) {
  CLI::App app;
  ScenarioFlags scenario;
  scenario.add_to(app);
  try {
    app.parse(flags);
  } catch (const CLI::ParseError& e) {
    return bad_input(e.what(), "flags as `rigcast run --help` shows them");
  }
  return scenario.document();
}

}  // namespace

Result<std::filesystem::path> find_suite(const std::string& name, const Catalogue& catalogue) {
  namespace fs = std::filesystem;
  std::error_code none;
  if (fs::is_regular_file(name, none)) return fs::path(name);
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(catalogue.root() / "examples/suites", none)) {
    if (entry.path().stem() == name) return entry.path();
    names.push_back(entry.path().stem().string());
  }
  std::ranges::sort(names);
  return bad_input(fmt::format("--suite: there is no suite \"{}\"", name),
                   names.empty() ? "a file with [[run]] tables"
                                 : fmt::format("{}, or a file", fmt::join(names, ", ")));
}

bool is_suite(const std::filesystem::path& file) {
  const auto document = TomlDocument::read(file);
  return document && document->has("run");
}

Result<std::vector<SuiteRun>> read_suite(const std::filesystem::path& file) {
  const auto document = TomlDocument::read(file);
  if (!document) return document.error();
  std::vector<SuiteRun> runs;
  const TomlTable root = document->root();
  for (const TomlTable& t : root.tables("run")) {
    const std::string name = t.text("name");
    const auto beside = t.find_text("scenario");
    auto scenario =
        beside ? TomlDocument::read(file.parent_path() / *beside) : scenario_of(t.text("flags"));
    if (!scenario) {
      t.refuse(beside ? "scenario" : "flags", scenario.error());
      continue;
    }
    runs.push_back({name, *std::move(scenario), t.flag("file", false)});
    t.finish();
  }
  root.finish();
  if (auto error = document->error()) return *error;
  if (runs.empty())
    return bad_input(
        "there are no runs in this suite",
        "[[run]] with name = \"...\" and flags = \"--model ...\", or scenario = \"FILE\"",
        SourceRef{file.string()});
  return runs;
}

}  // namespace rigcast::cli
