// Bars by examples worked out by hand, and what is wrong in their file.
#include "validation/bars.hpp"

#include <fstream>

#include "tests/catch.hpp"
#include "tests/folder.hpp"

using namespace rigcast;

namespace {

ValidationRow row(const std::string& id, double error, Regime regime = Regime::kResident) {
  ValidationRow r;
  r.id = id;
  r.gpu = true;
  r.regime = regime;
  r.metric = "decode.tokens_per_s";
  r.predicted = 100 * (1 + error);
  r.measured = 100;
  return r;
}

ErrorBar bar(double median, double worst) {
  ErrorBar b;
  b.label = "decode";
  b.metric = "decode.tokens_per_s";
  b.gpu = true;
  b.median = median;
  b.worst = worst;
  return b;
}

BarVerdict verdict(const std::vector<ValidationRow>& rows, const ErrorBar& b) {
  const auto all = judge(rows, std::vector{b});
  REQUIRE(all.size() == 1);
  return all.front();
}

Result<std::vector<ErrorBar>> read(const std::string& text) {
  const test::Folder folder;
  std::ofstream(folder / "bars.toml") << text;
  return read_bars(folder / "bars.toml");
}

}  // namespace

TEST_CASE("The median of an even number of runs is between the two in the middle", "[bars]") {
  const std::vector rows = {row("a", 0.01), row("b", -0.02), row("c", 0.06), row("d", -0.20)};
  const BarVerdict v = verdict(rows, bar(0.05, 0.21));
  CHECK(v.runs == 4);
  CHECK(v.median == Approx(0.04));
  CHECK(v.worst.id == "d");
  CHECK(v.worst.error == Approx(-0.20));
  CHECK(v.median_holds);
  CHECK(v.worst_holds);
  REQUIRE(v.beyond.size() == 2);
  CHECK(v.beyond[0].id == "c");

  const BarVerdict missed_by = verdict(rows, bar(0.019, 0.19));
  CHECK_FALSE(missed_by.median_holds);
  CHECK_FALSE(missed_by.worst_holds);
  const auto told = missed(std::vector{v, missed_by});
  REQUIRE(told.size() == 1);
  CHECK(told[0] == "decode: the median error of 4.0 % is above 1.9 %");
}

TEST_CASE("A bar judges its figure, its machines and its regimes, and no fitted run", "[bars]") {
  std::vector rows = {row("a", 0.5), row("b", 0.01, Regime::kSplit), row("c", 0.01)};
  rows[0].counted = false;
  ErrorBar b = bar(0.05, 0.1);
  CHECK(verdict(rows, b).runs == 2);
  b.regimes = {Regime::kSplit};
  CHECK(verdict(rows, b).worst.id == "b");
  b.gpu = false;
  CHECK(judge(rows, std::vector{b}).empty());
  b.gpu = true;
  b.metric = "memory.vram";
  CHECK(judge(rows, std::vector{b}).empty());
}

TEST_CASE("What is allowed whatever the share is within", "[bars]") {
  ErrorBar b = bar(0.02, 0.04);
  CHECK_FALSE(verdict({row("a", 0.3)}, b).median_holds);
  b.allowed = 31;
  CHECK(verdict({row("a", 0.3)}, b).median_holds);
  CHECK(verdict({row("a", 0.3)}, b).worst_holds);
  // A place is a share of the context, and within a block.
  ValidationRow place = row("a", 0.3);
  place.scale = 1000;
  CHECK(verdict({place}, bar(0.02, 0.04)).median == Approx(0.03));
  place.allowed = 32;
  CHECK(verdict({place}, bar(0.02, 0.04)).worst_holds);
}

TEST_CASE("A file of bars says what is wrong in it", "[bars]") {
  const std::string good = "[[bar]]\nlabel = \"a\"\non = \"gpu\"\nmetric = \"memory.vram\"\n";
  const auto bars = read(good +
                         "median = 0.1\nworst = 0.2\nregimes = [\"resident\"]\n"
                         "allowed = \"100 MiB\"\n");
  REQUIRE(bars);
  CHECK(bars->front().allowed == 100 * 0x1p20);
  CHECK(bars->front().regimes == std::vector{Regime::kResident});
  CHECK_FALSE(read(good));
  CHECK_FALSE(read(good + "median = 0.1\nworst = 0.2\nregimes = [\"here\"]\n"));
  CHECK_FALSE(read(good + "median = 0.1\nworst = 2\n"));
  CHECK_FALSE(read(good + "median = 0.1\nworst = 0.2\nmaen = 1\n"));
  CHECK_FALSE(read("bar = []\n"));
  CHECK(read_bars(RIGCAST_SOURCE_DIR "/tests/validation/bars.toml"));
}
