// Intervals and quantiles of errors on chips that a fit had not seen.
#include "calibration/accuracy.hpp"

#include <cmath>
#include <string>

#include "core/runtime/load_profile.hpp"
#include "tests/catch.hpp"
#include "tests/core/catalogue_fixture.hpp"
#include "tests/paths.hpp"

using namespace rigcast;
using namespace rigcast::calibration;

namespace {

LeftOutRow row_of(std::string chip, double error) {
  LeftOutRow row;
  row.chip = std::move(chip);
  row.measured = 100;
  row.left_out = error;
  return row;
}

// Chip i of 1 to n was measured at exp(i) times its forecast, `rows` times.
std::vector<RuntimeProfile::Spread> spreads_of(int chips, int rows = 1) {
  std::vector<LeftOutRow> all;
  for (int i = 0; i < chips * rows; ++i)
    all.push_back(row_of("chip " + std::to_string(i / rows), -double(i / rows + 1)));
  return spreads(all);
}

const RuntimeProfile::Spread& of(const std::vector<RuntimeProfile::Spread>& all,
                                 const std::string& regime) {
  for (const auto& spread : all)
    if (spread.metric == SpeedMetric::kDecode && spread.regime == regime) return spread;
  FAIL("no spread of " + regime);
  return all.front();
}

// The chips at the ends of the interval.
std::pair<double, double> ends(int chips, int rows = 1) {
  const auto all = spreads_of(chips, rows);
  const auto& spread = of(all, "resident");
  CHECK(spread.chips == chips);
  CHECK(spread.rows == chips * rows);
  return {std::log(spread.low), std::log(spread.high)};
}

void check_ends(int chips, int rows, double low, double high) {
  INFO(chips << " chips of " << rows << " rows");
  const auto [from, to] = ends(chips, rows);
  CHECK(from == Approx(low));
  CHECK(to == Approx(high));
}

}  // namespace

TEST_CASE("An interval is as far from the lowest chip as from the highest", "[calibration]") {
  // Half a chip beyond either end: a tenth of n + 1 leaves out the chips below (n + 1) / 10 - 1/2.
  check_ends(4, 1, 1, 4);
  check_ends(10, 1, 1, 10);
  check_ends(13, 1, 1, 13);
  check_ends(15, 1, 2, 14);
  check_ends(20, 1, 2, 19);
  check_ends(25, 1, 3, 23);
}

TEST_CASE("A chip with many rows counts as one", "[calibration]") {
  check_ends(10, 3, 1, 10);
  check_ends(20, 2, 2, 19);
}

TEST_CASE("Fewer than four chips tell no interval of their regime", "[calibration]") {
  const auto few = spreads_of(3);
  REQUIRE(few.size() == 1);
  CHECK(few.front().regime == "all");
  CHECK(spreads_of(4).size() == 2);
}

TEST_CASE("The intervals that ship are those of the table that ships", "[calibration]") {
  const auto rows = read_left_out(test::source_path("/runtimes/fitted/llama.cpp.left-out.csv"));
  const auto profile = load_runtime_profile(*fixtures::catalogue().runtime_file("llama.cpp"));
  REQUIRE(rows);
  REQUIRE(profile);
  const auto check = [](const std::vector<RuntimeProfile::Spread>& shipped,
                        const std::vector<RuntimeProfile::Spread>& computed) {
    REQUIRE(shipped.size() == computed.size());
    for (std::size_t i = 0; i < shipped.size(); ++i) {
      INFO(shipped[i].regime);
      CHECK(shipped[i].regime == computed[i].regime);
      // The file has three decimals.
      CHECK(shipped[i].low == Approx(computed[i].low).margin(0.00051));
      CHECK(shipped[i].high == Approx(computed[i].high).margin(0.00051));
      CHECK(shipped[i].chips == computed[i].chips);
    }
  };
  check(profile->spreads, spreads(*rows));
  check(profile->family_spreads, spreads(by_family(*rows)));
}

TEST_CASE("A chip with many rows does not move the median of chips", "[calibration]") {
  // Errors of 10, 20 and 30 %; the last chip has three rows.
  const std::vector<LeftOutRow> rows = {row_of("a", std::log(1.1)), row_of("b", std::log(0.8)),
                                        row_of("c", std::log(1.3)), row_of("c", std::log(1.3)),
                                        row_of("c", std::log(1.3))};
  CHECK(left_out_quantiles(rows, Weighing::kChipsEqual).median == Approx(0.2));
  CHECK(left_out_quantiles(rows, Weighing::kRowsEqual).median == Approx(0.3));
  CHECK(left_out_quantiles(rows, Weighing::kChipsEqual).p90 == Approx(0.3));
}

TEST_CASE("Whether a chip is inside the interval of others is unknown without others",
          "[calibration]") {
  const std::vector<LeftOutRow> alone = {row_of("a", 0.1), row_of("a", 0.2)};
  for (const Accuracy& a : accuracy(alone)) CHECK(std::isnan(a.covered));
  const std::vector<LeftOutRow> two = {row_of("a", 0.1), row_of("b", 0.1)};
  for (const Accuracy& a : accuracy(two)) CHECK(a.covered == 1.0);
}

TEST_CASE("Half is as far off as double, and one chip does not fill the list", "[calibration]") {
  std::vector<LeftOutRow> rows;
  for (const double error : {0.5, 0.4, 0.3}) rows.push_back(row_of("a", std::log(2.0) + error));
  rows.push_back(row_of("b", std::log(0.5)));
  rows.push_back(row_of("b", std::log(1.9)));
  const auto far = farthest_off(rows, 3, 2);
  REQUIRE(far.size() == 3);
  CHECK(far[0].left_out == Approx(std::log(2.0) + 0.5));
  CHECK(far[1].left_out == Approx(std::log(2.0) + 0.4));
  CHECK(far[2].left_out == Approx(std::log(0.5)));
}
