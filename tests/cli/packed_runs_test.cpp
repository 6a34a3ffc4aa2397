// rigcast validate --pack and --replay of one file: what is damaged or too large is refused.
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "core/files/gzip.hpp"
#include "tests/catch.hpp"
#include "tests/cli/program.hpp"
#include "tests/paths.hpp"

using namespace rigcast;
using namespace rigcast::cli_test;

namespace {

const std::string kPacked = test::source_path("/tests/validation/zen5-2-cores.jsonl.gz");
const std::string kHeader = "{\"schema\":\"rigcast.runs/1\",\"device\":\"cpu\"}\n";

Outcome replay(const std::string& bytes) {
  const Folder folder;
  const std::string file = folder / "runs.jsonl.gz";
  std::ofstream(file, std::ios::binary) << bytes;
  return run({"validate", "--replay", file});
}

void check_refused(const std::string& bytes, const std::string& why) {
  const Outcome o = replay(bytes);
  INFO(o.error);
  CHECK(o.exit == 2);
  CHECK(contains(o.error, "runs.jsonl.gz"));
  CHECK(contains(o.error, why));
}

}  // namespace

TEST_CASE("A packed file that was packed again is the same", "[cli][packed]") {
  const Folder folder;
  REQUIRE(run({"validate", "--pack", kPacked, "-o", folder / "again"}).exit == 0);
  CHECK(read(folder / "again") == read(kPacked));
  CHECK(run({"validate", "--pack", kPacked}).exit == 2);  // where to
}

TEST_CASE("A packed file that is damaged, cut short or of something else is refused",
          "[cli][packed]") {
  const std::string whole = read(kPacked);
  REQUIRE(whole.size() > 10000);
  check_refused(whole.substr(0, whole.size() / 2), "cut short");
  check_refused(whole.substr(0, 30), "cut short");
  std::string damaged = whole;
  for (std::size_t i = 5000; i < 5100; ++i) damaged[i] = char(damaged[i] ^ 0x55);
  check_refused(damaged, "is damaged");
  check_refused("", "no runs");
  check_refused(gzip(kHeader), "no runs");
  check_refused(gzip("{\"schema\":\"rigcast.report/1\"}\n"), ":1:1: not a run");
  check_refused(gzip(kHeader + "{\"name\":\n"), ":2:1: not a run");
  check_refused(gzip(kHeader + "{\"name\":1,\"scenario\":\"\",\"file\":false}\n"), "not a run");
  check_refused(gzip(kHeader + "[" + std::string(1000000, '[') + "\n"), "not a run");
}

TEST_CASE("A small file that holds very much is refused before it fills memory", "[cli][packed]") {
  const std::string bomb = gzip(std::string(80u << 20, ' '));
  CHECK(bomb.size() < 1000000);
  check_refused(bomb, "holds more than");
}

TEST_CASE("A run without measured figures is reported by its name", "[cli][packed]") {
  const std::string scenario = "[model]\\nname = 'smollm2-135m'\\n[rig]\\nname = 'desktop-ddr5'\\n";
  const std::string run = "{\"name\":\"a\",\"scenario\":\"" + scenario +
                          "\",\"file\":false,\"times\":null,\"measured\":{\"schema\":1}}\n";
  const Outcome o = replay(gzip(kHeader + run));
  CHECK(o.exit == 2);
  CHECK(contains(o.error, "a: not the JSON of a report"));
}

TEST_CASE("Forecasts as they were written are held to bars", "[cli][packed]") {
  const std::string bars = test::source_path("/tests/validation/bars.toml");
  const Outcome o =
      run({"validate", "--replay", kPacked, "--as-written", "--bars", bars, "--format", "json"});
  INFO(o.error);
  CHECK(o.exit == 0);
  const auto v = nlohmann::json::parse(o.out);
  REQUIRE(v["bars"].size() == 5);  // those of machines without a GPU
  CHECK(v["bars"][0]["label"] == "decode");
  CHECK(v["bars"][0]["median_holds"] == true);

  const Folder folder;
  std::ofstream(folder / "bars.toml") << "[[bar]]\nlabel = \"speed\"\non = \"cpu\"\n"
                                         "metric = \"decode.tokens_per_s\"\n"
                                         "median = 0.0001\nworst = 0.0001\n";
  const Outcome strict = run({"validate", "--replay", kPacked, "--bars", folder / "bars.toml"});
  CHECK(strict.exit == 1);
  CHECK(contains(strict.error, "speed: the median error of"));
  // What a fit reads was kept without forecasts.
  const std::string fit = test::source_path("/tests/validation/fit.jsonl.gz");
  const Outcome none = run({"validate", "--replay", fit, "--as-written"});
  CHECK(none.exit == 2);
  CHECK(contains(none.error, "its forecast was not kept"));
}
