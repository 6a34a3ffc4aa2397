// Reports of runs as they were kept: read as types, and written again, they say the same.
#include <filesystem>
#include <nlohmann/json.hpp>

#include "report/report.hpp"
#include "report/report_from_json.hpp"
#include "report/report_json.hpp"
#include "tests/catch.hpp"
#include "tests/folder.hpp"
#include "tests/paths.hpp"
#include "validation/runs/packed_runs.hpp"
#include "validation/runs/run_archive.hpp"

using namespace rigcast;
using nlohmann::json;

namespace {

// Every figure of `kept`, which may lack keys that are newer.
void check_holds(const json& again, const json& kept) {
  if (kept.is_object()) {
    for (const auto& [key, value] : kept.items()) {
      INFO(key);
      REQUIRE(again.contains(key));
      check_holds(again[key], value);
    }
  } else if (kept.is_array()) {
    REQUIRE(again.size() == kept.size());
    for (std::size_t i = 0; i < kept.size(); ++i) check_holds(again[i], kept[i]);
  } else {
    CHECK(again == kept);
  }
}

// But for the scenario, which a report alone does not hold.
void check_same(const std::string& text) {
  const auto report = report_from_json(text, nullptr);
  if (!report) FAIL(report.error().text());
  json kept = json::parse(text);
  kept.erase("scenario");
  check_holds(json::parse(to_json(*report)), kept);
}

}  // namespace

TEST_CASE("Reports of all runs that were kept can be read back", "[validation][report]") {
  namespace fs = std::filesystem;
  int reports = 0;
  for (const auto& file :
       fs::recursive_directory_iterator(test::source_path("/tests/validation"))) {
    if (!file.path().string().ends_with(".jsonl.gz")) continue;
    INFO(file.path());
    const auto suite = validation::read_archive(file.path());
    REQUIRE(suite);
    for (const validation::ArchivedRun& run : suite->runs)
      for (const std::string& text : {run.measured, run.forecast}) {
        if (text.empty()) continue;
        INFO(run.run.name);
        check_same(text);
        ++reports;
      }
  }
  CHECK(reports > 300);
}

TEST_CASE("A kept run is forecast for the build that ran, where its scenario names none",
          "[validation][llama-bench]") {
  const auto build_of = [](const std::string& scenario, int number) {
    const test::Folder folder;
    validation::RunArchive archive(folder.path());
    validation::Suite suite;
    suite.runs.push_back({"one", *TomlDocument::parse(scenario, "a test")});
    REQUIRE_FALSE(archive.begin(suite, false));
    const json line{{"build_commit", "b7347"},
                    {"build_number", number},
                    {"n_prompt", 1},
                    {"n_gen", 0},
                    {"samples_ts", {1.0}}};
    REQUIRE_FALSE(archive.write(0, "llama-bench.jsonl", line.dump() + "\n"));
    const auto read = archive.read();
    REQUIRE(read);
    return read->runs.at(0).run.scenario.root().table("runtime").text_or("build", "");
  };
  const std::string scenario = "[model]\nname = \"llama-3.2-1b\"\n";
  CHECK(build_of(scenario, 7347) == "2025-12");
  CHECK(build_of(scenario, 0) == "");  // not told
  CHECK(build_of(scenario + "[runtime]\nbuild = \"2024-07\"\n", 7347) == "2024-07");
}
