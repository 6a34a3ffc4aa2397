// The suites that come with rigcast: every line is a scenario that can be forecast, and suites for
// validation share no line with those for fits.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "core/text/toml_reader.hpp"
#include "tests/catch.hpp"
#include "tests/cli/program.hpp"
#include "tests/paths.hpp"

using namespace rigcast;
using namespace rigcast::cli_test;
using nlohmann::json;

namespace {

struct Line {
  std::string name;
  TomlDocument scenario;
};

std::vector<Line> lines_of(const std::string& suite) {
  const auto document =
      TomlDocument::read(test::source_path("/examples/suites/") + suite + ".toml");
  REQUIRE(document);
  std::vector<Line> lines;
  for (const TomlTable& run : document->root().tables("run"))
    lines.push_back({run.text("name"), TomlDocument::of(run.table("scenario"))});
  return lines;
}

// As `rigcast validate` forecasts it, on a machine that is known.
json forecast(const Line& line) {
  const Folder folder;
  const std::string file = folder / "scenario.toml";
  std::ofstream(file) << line.scenario.text();
  std::vector<std::string> words = {"simulate",    file,       "--rig",   "h200-16core",
                                    "--runtime",   "rigcast",  "--start", "resident",
                                    "--no-advice", "--format", "json"};
  if (line.scenario.has("rig.vram_capacity"))
    for (const char* other : {"rig.gpu_context", "rig.vram_reserved"})
      words.insert(words.end(), {"--set", other + std::string("=\"0 MiB\"")});
  const Outcome o = run(words);
  INFO(line.name << ": " << o.error);
  REQUIRE(o.exit == 0);
  return json::parse(o.out);
}

// The properties by which configurations differ.
std::string configuration(const json& report) {
  json s = report["scenario"];
  s["workload"].erase("output_tokens");
  return s.dump();
}

// Of all lines, which are all different and have a regime that the engine executes.
std::set<std::string> configurations(const std::string& suite) {
  std::set<std::string> all, names;
  for (const Line& line : lines_of(suite)) {
    INFO(suite << ": " << line.name);
    const json report = forecast(line);
    CHECK(report["fits"] == true);
    CHECK(report["scenario"]["kv"]["policy"] != "spill");
    CHECK(all.insert(configuration(report)).second);
    CHECK(names.insert(line.name).second);
  }
  return all;
}

std::set<std::string> fitted() {
  static const std::set<std::string> all = [] {
    std::set<std::string> both = configurations("gpu-fit");
    both.merge(configurations("gpu-fit-2"));
    return both;
  }();
  return all;
}

bool are_apart(const std::set<std::string>& a, const std::set<std::string>& b) {
  std::vector<std::string> both;
  std::ranges::set_intersection(a, b, std::back_inserter(both));
  return both.empty();
}

}  // namespace

TEST_CASE("Suites of a GPU can be forecast, and judge nothing that was fitted on",
          "[cli][suites]") {
  const auto [suite, least] = GENERATE(table<std::string, std::size_t>({{"gpu-resident", 26},
                                                                        {"gpu-files", 9},
                                                                        {"gpu-files-2", 9},
                                                                        {"gpu-shared", 25},
                                                                        {"gpu-kv", 25},
                                                                        {"gpu-kv-2", 22},
                                                                        {"gpu-families", 24},
                                                                        {"gpu-families-2", 28},
                                                                        {"quick-gpu", 8}}));
  const auto judged = configurations(suite);
  CHECK(judged.size() >= least);
  CHECK(are_apart(judged, fitted()));
}

TEST_CASE("In runs in which VRAM fills up, speed is forecast to fall within the run",
          "[cli][suites]") {
  int found = 0;
  std::vector<Line> lines = lines_of("gpu-kv");
  std::ranges::copy(lines_of("gpu-kv-2"), std::back_inserter(lines));
  for (const Line& line : lines) {
    if (!line.name.starts_with("S1")) continue;
    const json report = forecast(line);
    const json& work = report["scenario"]["workload"];
    REQUIRE_FALSE(report["cliffs"].empty());
    const auto at = report["cliffs"][0]["at_tokens"].get<long>();
    INFO(line.name << " at " << at);
    const long first = work["prompt_tokens"].get<long>();
    // With a thousand tokens and more on either side.
    CHECK(at > first + 1000);
    CHECK(at + 1000 < first + work["output_tokens"].get<long>());
    ++found;
  }
  CHECK(found >= 3);
}

TEST_CASE("A suite of a GPU says that there is none", "[cli][suites]") {
  const Folder folder;
  const How how{.environment = {{"CUDA_VISIBLE_DEVICES", ""}}};
  const Outcome o = run({"validate", "--suite", "gpu-kv", "--keep", folder / "kept"}, how);
  CHECK(o.exit == 3);
  CHECK(contains(o.error, "--device cuda"));
  CHECK_FALSE(fs::exists(folder / "kept"));
  // And the one that has a variant for a GPU is another.
  const Outcome wrong = run({"validate", "--suite", "quick", "--device", "gpu"});
  CHECK(wrong.exit == 2);
}
