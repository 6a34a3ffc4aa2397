// Kept runs as rows of a fit.

#include "calibration/runs/kept_speeds.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include "tests/catch.hpp"
#include "tests/core/catalogue_fixture.hpp"
#include "tests/paths.hpp"
#include "validation/runs/packed_runs.hpp"
#include "validation/runs/replay.hpp"

using namespace rigcast;
using namespace rigcast::calibration;

TEST_CASE("Kept runs are rows of their own machine", "[calibrate]") {
  const std::vector<std::string> paths{
      test::source_path("/tests/validation/zen5-2-cores.jsonl.gz")};
  const auto speeds = kept_speeds(paths, fixtures::catalogue());
  if (!speeds) FAIL(speeds.error().text());
  const auto suite = validation::read_archive(paths.front());
  REQUIRE(suite);
  // Each run is a decode and a prefill, or is skipped with its reason.
  CHECK(speeds->runs.size() / 2 + speeds->skipped.size() == suite->runs.size());
  REQUIRE(speeds->runs.size() > 2);
  const auto first = validation::measured_run(suite->runs.front(), fixtures::catalogue());
  REQUIRE(first);
  const ResolvedRun& decode = speeds->runs[0];
  const ResolvedRun& prefill = speeds->runs[1];
  CHECK(decode.measured.metric == Metric::kTg);
  CHECK(decode.measured.value == first->measured.decode_tokens_per_s);
  CHECK(prefill.measured.metric == Metric::kPp);
  CHECK(prefill.measured.value == first->measured.prefill_tokens_per_s);
  CHECK(decode.regime == Regime::kCpuOnly);
  CHECK(decode.chip == first->scenario.rig.cpu.id);
  CHECK(decode.families.size() == 1);
  CHECK(decode.ram_known);
}

TEST_CASE("What is no archive of runs is refused", "[calibrate]") {
  const std::vector<std::string> paths{test::source_path("/README.md")};
  CHECK_FALSE(kept_speeds(paths, fixtures::catalogue()));
}
