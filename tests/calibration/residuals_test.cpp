// Intervals from the errors on chips that a fit had not seen.
#include "calibration/residuals.hpp"

#include <cmath>
#include <string>

#include "tests/catch.hpp"
#include "tests/core/catalogue_fixture.hpp"

using namespace rigcast;
using namespace rigcast::calibration;

namespace {

ResolvedRun run_on_an_rtx_3090() {
  Measurement m;
  m.gpu = "RTX 3090";
  m.gpu_count = 1;
  m.cpu = "Ryzen 9 7950X";
  m.model = "Llama-3.1-8B";
  m.quant = "Q4_K_M";
  m.date = "2025-10";
  m.tool = "llama-bench";
  m.generated = 128;
  m.value = 100;
  auto run = Resolver(fixtures::catalogue()).resolve(m);
  if (!run) FAIL(run.error().text());
  return *std::move(run);
}

// Chip i of 1 to n was measured at exp(i) times its forecast, `rows` times.
std::vector<RuntimeProfile::Spread> spreads_of(int chips, int rows = 1) {
  std::vector<ResolvedRun> runs(std::size_t(chips * rows), run_on_an_rtx_3090());
  std::vector<Sample> samples;
  LeftOut errors;
  for (int i = 0; i < chips * rows; ++i) {
    ResolvedRun& run = runs[std::size_t(i)];
    run.chip = "chip " + std::to_string(i / rows);
    samples.emplace_back(run, run.scenario->runtime);
    errors.left_out.push_back(-double(i / rows + 1));
  }
  return spreads(samples, errors);
}

const RuntimeProfile::Spread& of(const std::vector<RuntimeProfile::Spread>& all,
                                 const std::string& regime) {
  for (const auto& spread : all)
    if (spread.metric == "tg_tps" && spread.regime == regime) return spread;
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
