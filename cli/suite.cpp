#include "cli/suite.hpp"

#include <CLI/CLI.hpp>
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
