// Suites of runs, and runs that vary values.

#include "validation/runs/suite.hpp"

#include <string>
#include <vector>

#include "tests/catch.hpp"
#include "tests/folder.hpp"

using namespace rigcast;
using Catch::Contains;
using test::Folder;
using validation::read_suite;

namespace {

constexpr const char* kRun =
    "[[run]]\nname = \"8B\"\nscenario.model = { name = \"llama-3.1-8b\" }\n"
    "scenario.workload = { prompt_tokens = 512 }\n";

}  // namespace

TEST_CASE("A run varies values: one for each combination", "[suites]") {
  const Folder folder;
  const auto suite = read_suite(folder.write(
      "suite.toml", std::string(kRun) +
                        "file = true\nvary = { \"workload.depth\" = [0, 4096], "
                        "\"kv.type_k\" = [\"f16\", \"q8_0\"] }\n\n[[run]]\nname = \"1B\"\n"
                        "scenario.model = { name = \"llama-3.2-1b\" }\n"));
  if (!suite) FAIL(suite.error().text());
  std::vector<std::string> names;
  for (const auto& run : suite->runs) names.push_back(run.name);
  CHECK(names == std::vector<std::string>{"8B, type_k f16, depth 0", "8B, type_k f16, depth 4096",
                                          "8B, type_k q8_0, depth 0", "8B, type_k q8_0, depth 4096",
                                          "1B"});
  const auto& last = suite->runs[3];
  CHECK(last.file);
  CHECK(last.table == suite->runs[0].table);
  CHECK(suite->runs[4].table != last.table);
  const TomlTable scenario = last.scenario.root();
  CHECK(scenario.table("workload").integer("depth", 0, 1 << 20) == 4096);
  CHECK(scenario.table("workload").integer("prompt_tokens", 0, 1 << 20) == 512);
  CHECK(scenario.table("kv").text("type_k") == "q8_0");
}

TEST_CASE("What cannot be varied is refused where it stands", "[suites]") {
  const Folder folder;
  const auto refused = [&](const std::string& vary) {
    const auto suite = read_suite(folder.write("suite.toml", kRun + vary));
    REQUIRE_FALSE(suite);
    REQUIRE(suite.error().where);
    CHECK(suite.error().where->line == 5);
    return suite.error().text();
  };
  CHECK_THAT(refused("vary = { \"workload.depth\" = [] }\n"), Contains("found none"));
  CHECK_THAT(refused("vary = { \"workload.depth\" = 4096 }\n"), Contains("expected a list"));
  CHECK_THAT(refused("vary = { \"kv\" = [{ type_k = \"f16\" }] }\n"), Contains("texts, numbers"));
  std::string many;
  for (int i = 0; i < 101; ++i) many += std::to_string(i) + ", ";
  CHECK_THAT(refused("vary = { \"workload.depth\" = [" + many + "], \"workload.users\" = [" + many +
                     "] }\n"),
             Contains("more than 10000 runs"));
}
