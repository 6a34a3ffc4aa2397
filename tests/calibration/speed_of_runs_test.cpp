// The estimate of a machine's speed from own runs.

#include "calibration/speed_of_runs.hpp"

#include <cmath>
#include <vector>

#include "tests/catch.hpp"

using namespace rigcast;

TEST_CASE("A run weighs as much as the forecast is uncertain", "[correction]") {
  // Variances 0.01 before, 0.05^2 of the run and 0.04^2 between models.
  const OwnRun run{std::log(1.2), 0.1, 0.01};
  const auto one = speed_of_runs(std::vector{run}, 0.04);
  CHECK(one.factor.value == Approx(std::pow(1.2, 0.01 / (0.01 + 0.0025 + 0.0016))));
  CHECK(one.factor.kind == SourceKind::kMeasured);
  // 1 / (100 + 400) and 0.04^2 are left.
  CHECK(one.spread == Approx(1.2816 * std::sqrt(0.002 + 0.0016)));
  // Two runs halve the noise; their middle counts.
  const OwnRun other{std::log(1.4), 0.1, 0.05};
  const auto two = speed_of_runs(std::vector{run, other}, 0.04);
  CHECK(two.factor.value == Approx(std::pow(1.2 * 1.4, 0.5 * 0.01 / (0.01 + 0.00125 + 0.0016))));
  CHECK(two.spread == Approx(1.2816 * std::sqrt(1.0 / 900 + 0.0016)));
}

TEST_CASE("A run that states more noise weighs less, and some spread always stays",
          "[correction]") {
  const auto noisy = speed_of_runs(std::vector{OwnRun{std::log(2.0), 0.1, 0.1}}, 0.0);
  CHECK(noisy.factor.value == Approx(std::sqrt(2.0)));
  CHECK(noisy.spread == Approx(1.2816 * std::sqrt(0.005)));
  const std::vector<OwnRun> many(1000, {0.3, 0.1, 0.0});
  CHECK(speed_of_runs(many, 0.11).spread == Approx(1.2816 * 0.11).epsilon(0.001));
  // A forecast with a small variance keeps most of its weight, but not all: 0.01^2 compared with
  // 0.05^2.
  CHECK(speed_of_runs(std::vector{OwnRun{0.26, 0.0, 0.0}}, 0.0).factor.value ==
        Approx(std::exp(0.01)));
}
