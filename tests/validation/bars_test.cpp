// Bars, by examples calculated by hand, and errors in their file.
#include "validation/bars.hpp"

#include <fstream>

#include "tests/catch.hpp"
#include "tests/folder.hpp"
#include "tests/paths.hpp"

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
  const auto all = judge(rows, Bars{{b}, {}});
  REQUIRE(all.size() == 1);
  return all.front();
}

Result<Bars> read(const std::string& text) {
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
  CHECK(judge(rows, Bars{{b}, {}}).empty());
  b.gpu = true;
  b.metric = "memory.vram";
  CHECK(judge(rows, Bars{{b}, {}}).empty());
}

TEST_CASE("What is allowed whatever the share is within", "[bars]") {
  ErrorBar b = bar(0.02, 0.04);
  CHECK_FALSE(verdict({row("a", 0.3)}, b).median_holds);
  b.worst = std::nullopt;
  CHECK(verdict({row("a", 0.3)}, b).worst_holds);
  b.worst = 0.1;
  CHECK_FALSE(verdict({row("a", 0.3)}, b).worst_holds);
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

TEST_CASE("A bar of several regimes is to hold in each of them", "[bars]") {
  ErrorBar b = bar(0.05, 0.5);
  b.regimes = {Regime::kSplit, Regime::kExpertsInRam};
  std::vector rows = {row("a", 0.01, Regime::kSplit), row("b", 0.02, Regime::kSplit),
                      row("c", 0.03, Regime::kSplit), row("d", 0.09, Regime::kExpertsInRam)};
  const BarVerdict v = verdict(rows, b);
  CHECK(v.median == Approx(0.025));
  CHECK_FALSE(v.median_holds);
  REQUIRE(v.missed_in);
  CHECK(*v.missed_in == Regime::kExpertsInRam);
  const auto told = missed(std::vector{v});
  REQUIRE(told.size() == 1);
  CHECK(told[0] == "decode, experts in RAM: the median error of 9.0 % is above 5 %");
  rows[3] = row("d", 0.04, Regime::kExpertsInRam);
  CHECK(verdict(rows, b).median_holds);
}

TEST_CASE("Runs under memory pressure have bars of their own, for exact figures and for intervals",
          "[bars]") {
  ValidationRow exact = row("a", 0.01), wide = row("b", 0.5), outside = row("c", 2);
  for (ValidationRow* r : {&exact, &wide, &outside}) r->pressed = true;
  wide.interval = outside.interval = Interval{0, 2};
  wide.measured = 1, wide.predicted = 1.5;
  outside.measured = 3, outside.predicted = 9;
  const std::vector rows = {exact, wide, outside, row("d", 0.03)};
  ErrorBar b = bar(0.02, 0.02);
  CHECK(verdict(rows, b).worst.id == "d");
  b.pressed = b.exact = true;
  CHECK(verdict(rows, b).runs == 1);
  CHECK(verdict(rows, b).median_holds);
  b.exact = false;
  b.inside = 0.6;
  const BarVerdict v = verdict(rows, b);
  CHECK(v.with_interval == 2);
  CHECK(v.inside == 1);
  CHECK_FALSE(v.inside_holds);
  b.inside = 0.5;
  CHECK(verdict(rows, b).inside_holds);
}

TEST_CASE("A suite that a bar is not for is not held to it", "[bars]") {
  std::vector rows = {row("a", 0.5), row("b", 0.01)};
  rows[0].suite = "kept/h200/gpu-kv.jsonl.gz";
  rows[1].suite = "kept/h200/gpu-files";
  Bars bars{{bar(0.05, 0.1)}, {{"h200/gpu-kv", {}, {"decode"}, "of an engine before"}}};
  const auto judged = judge(rows, bars);
  REQUIRE(judged.size() == 1);
  CHECK(judged[0].runs == 1);
  CHECK(judged[0].worst.id == "b");
  CHECK(exceptions(rows, bars) ==
        std::vector<std::string>{"h200/gpu-kv is not held to decode: of an engine before"});
  bars.suites[0].suite = "200/gpu-kv";  // of another machine
  CHECK(judge(rows, bars)[0].runs == 2);
  CHECK(exceptions(rows, bars).empty());

  // Alone it is held to some, with others to all.
  bars.suites = {{"h200/gpu-kv", {"VRAM"}, {}, "few runs"}};
  CHECK(judge(rows, bars)[0].runs == 2);
  rows.pop_back();
  CHECK(judge(rows, bars).empty());
  CHECK(exceptions(rows, bars) ==
        std::vector<std::string>{"h200/gpu-kv alone is held to VRAM: few runs"});
}

TEST_CASE("A file of bars says what is wrong in it", "[bars]") {
  const std::string good = "[[bar]]\nlabel = \"a\"\non = \"gpu\"\nmetric = \"memory.vram\"\n";
  const auto bars = read(good +
                         "median = 0.1\nworst = 0.2\nregimes = [\"resident\"]\n"
                         "allowed = \"100 MiB\"\n");
  REQUIRE(bars);
  CHECK(bars->bars.front().allowed == 100 * 0x1p20);
  CHECK(bars->bars.front().regimes == std::vector{Regime::kResident});
  CHECK_FALSE(read(good));
  CHECK_FALSE(read(good + "median = 0.1\nworst = 0.2\nregimes = [\"here\"]\n"));
  CHECK_FALSE(read(good + "median = 0.1\nworst = 2\n"));
  const auto any_worst = read(good + "median = 0.1\n");
  REQUIRE(any_worst);
  CHECK_FALSE(any_worst->bars.front().worst);
  CHECK_FALSE(read(good + "median = 0.1\nworst = 0.2\nmaen = 1\n"));
  CHECK_FALSE(read("bar = []\n"));
  const std::string whole = good + "median = 0.1\nworst = 0.2\n[[suite]]\nname = \"s\"\n";
  CHECK(read(whole + "reason = \"why\"\nnever = [\"a\"]\n"));
  CHECK_FALSE(read(whole + "never = [\"a\"]\n"));
  CHECK_FALSE(read(whole + "reason = \"why\"\nalone = [\"b\"]\n"));
  CHECK(read_bars(test::source_path("/tests/validation/bars.toml")));
}

TEST_CASE("The largest errors are those that are not within the median's bar", "[bars]") {
  ErrorBar prefill = bar(0.05, 0.2);
  prefill.label = "prefill";
  prefill.metric = "prefill_tokens_per_s";
  std::vector rows = {row("a", 0.06), row("b", -0.2), row("c", 0.01), row("d", 0.1)};
  rows[3].metric = prefill.metric;
  for (ValidationRow& r : rows) r.interval = Interval{95, 110};
  const auto verdicts = judge(rows, Bars{{bar(0.05, 0.2), prefill}, {}});
  const auto largest = largest_errors(verdicts, 2);
  REQUIRE(largest.size() == 2);
  CHECK(largest[0].run.id == "b");
  CHECK(largest[1].run.id == "d");
  CHECK(largest[1].label == "prefill");
  CHECK(largest_errors(verdicts, 9).size() == 3);
  CHECK(speed_intervals(verdicts).with_interval == 4);
  CHECK(speed_intervals(verdicts).inside == 4);
  rows[3].metric = "memory.vram";
  CHECK(speed_intervals(judge(rows, Bars{{bar(0.05, 0.2), prefill}, {}})).with_interval == 3);
}
