// Bars of left-out errors, and what the program forecasts today beside a table of an earlier fit.
#include "calibration/left_out_bars.hpp"

#include <cmath>
#include <fstream>

#include "calibration/forecast_coverage.hpp"
#include "tests/catch.hpp"
#include "tests/folder.hpp"

using namespace rigcast;
using namespace rigcast::calibration;

namespace {

Result<LeftOutBars> read(const std::string& text) {
  const test::Folder folder;
  std::ofstream(folder / "bars.toml") << text;
  return read_left_out_bars(folder / "bars.toml");
}

const std::string kBar =
    "[[left_out]]\nname = \"decode\"\nmetric = \"tg_tps\"\nmedian = 0.1\np90 = 0.3\n";

// One row for each chip, all with the same left-out error.
std::vector<LeftOutRow> rows_of(int chips, double error) {
  std::vector<LeftOutRow> rows;
  for (int i = 0; i < chips; ++i) {
    LeftOutRow row;
    row.id = row.chip = std::to_string(i);
    row.measured = 100;
    row.left_out = std::log(1 + error);
    rows.push_back(row);
  }
  return rows;
}

LeftOutBar bar(double median, double limit) {
  LeftOutBar b;
  b.median = median;
  b.p90 = 0.5;
  b.limit = limit;
  return b;
}

Validation forecast(const std::vector<LeftOutRow>& rows, double factor) {
  Validation v;
  for (const LeftOutRow& row : rows) {
    ValidationRow r;
    r.id = row.id;
    r.predicted = row.fitted_speed() * factor;
    v.rows.push_back(r);
  }
  return v;
}

std::vector<Measurement> measured(int count) {
  std::vector<Measurement> out;
  for (int i = 0; i < count; ++i) {
    out.emplace_back();
    out.back().id = std::to_string(i);
  }
  return out;
}

}  // namespace

TEST_CASE("A bar of left-out errors states its limit", "[calibration]") {
  CHECK_FALSE(read(kBar));
  const auto bars = read("sweep = \"someone\"\n" + kBar +
                         "limit = 0.2\nregimes = [\"resident\"]\ndeep = true\nof_sweep = true\n");
  REQUIRE(bars);
  CHECK(bars->sweep == "someone");
  const LeftOutBar& bar = bars->bars.front();
  CHECK(bar.limit == 0.2);
  CHECK(bar.regimes == std::vector{Regime::kResident});
  CHECK(bar.deep);
  CHECK(bar.of_sweep);
  CHECK_FALSE(read(kBar + "limit = 0.2\n")->bars.front().of_sweep);
  CHECK_FALSE(read(kBar + "limit = 0.2\nregimes = [\"elsewhere\"]\n"));
  CHECK_FALSE(read(kBar + "limit = 0.2\nunknown = 1\n"));
}

TEST_CASE("A bar applies from eight chips on", "[calibration]") {
  CHECK_FALSE(judge(rows_of(7, 0.05), LeftOutBars{{}, {bar(0.1, 1)}}).front().applies);
  const LeftOutVerdict v = judge(rows_of(8, 0.05), LeftOutBars{{}, {bar(0.1, 1)}}).front();
  CHECK(v.applies);
  CHECK(v.reached);
  CHECK_FALSE(judge(rows_of(8, 0.15), LeftOutBars{{}, {bar(0.1, 1)}}).front().reached);
}

TEST_CASE("Rows of the sweep are judged apart from all others", "[calibration]") {
  std::vector<LeftOutRow> rows = rows_of(16, 0.05);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    rows[i].source = i < 8 ? "someone README.md" : "others";
    if (i >= 8) rows[i].left_out = std::log(1.3);
  }
  LeftOutBar of_sweep = bar(0.1, 1);
  of_sweep.of_sweep = true;
  const auto verdicts = judge(rows, LeftOutBars{"someone", {bar(0.1, 1), of_sweep}});
  CHECK(verdicts[0].rows == 8);
  CHECK(verdicts[0].chips_equal.median == Approx(0.3).epsilon(1e-9));
  CHECK(verdicts[1].rows == 8);
  CHECK(verdicts[1].chips_equal.median == Approx(0.05).epsilon(1e-9));
  // Without a sweep, all rows are of other sources.
  CHECK(judge(rows, LeftOutBars{"", {bar(0.1, 1)}}).front().rows == 16);
}

TEST_CASE("A median above its limit, or no rows at all, fails", "[calibration]") {
  CHECK(exceeded(judge(rows_of(8, 0.19), LeftOutBars{{}, {bar(0.1, 0.2)}})).empty());
  CHECK(exceeded(judge(rows_of(8, 0.21), LeftOutBars{{}, {bar(0.1, 0.2)}})).size() == 1);
  CHECK(exceeded(judge({}, LeftOutBars{{}, {bar(0.1, 0.2)}})).size() == 1);
}

TEST_CASE("A table of another program is noticed", "[calibration]") {
  const auto rows = rows_of(100, 0.05);
  const auto found = [&](double factor) {
    return shortcomings(forecast_coverage(rows, measured(100), forecast(rows, factor)));
  };
  CHECK(found(1.019).empty());
  CHECK(found(1.021).size() == 1);
}

TEST_CASE("Usable rows without a forecast are counted by reason", "[calibration]") {
  const auto rows = rows_of(80, 0.05);
  auto runs = measured(100);
  runs.emplace_back();
  runs.back().id = "doubtful";
  runs.back().notes = "SUSPECT";
  Validation v = forecast(rows, 1);
  for (int i = 80; i < 100; ++i) v.skipped.push_back({std::to_string(i), "does not fit"});
  v.skipped.push_back({"doubtful", "marked SUSPECT or CAUTION by its source"});
  const ForecastCoverage c = forecast_coverage(rows, runs, v);
  CHECK(c.usable == 100);
  CHECK(c.forecast == 80);
  CHECK(c.skipped == std::map<std::string, int>{{"does not fit", 20}});
  CHECK(shortcomings(c).empty());
  v.rows.pop_back();
  CHECK(shortcomings(forecast_coverage(rows, runs, v)).size() == 1);
}
