// Which rows speak for a forecast, in groups and nearest first.
#include "calibration/evidence.hpp"

#include <cmath>

#include "tests/catch.hpp"

using namespace rigcast;
using namespace rigcast::calibration;

namespace {

LeftOutRow row(std::string id, std::string chip, std::string family, std::string model,
               double error = 0.1, int year = 2025) {
  LeftOutRow r;
  r.id = std::move(id);
  r.chip = std::move(chip);
  r.family = std::move(family);
  r.model = std::move(model);
  r.quant = "Q4_K_M";
  r.measured = 100;
  r.left_out = std::log(1 + error);
  r.source = "a thread of " + std::to_string(year);
  r.year = year;
  return r;
}

std::vector<std::string> ids(const std::vector<LeftOutRow>& rows) {
  std::vector<std::string> out;
  for (const LeftOutRow& r : rows) out.push_back(r.id);
  return out;
}

const EvidenceQuery kQuery{"rtx-3090", {"ampere"}, "llama-3.1-8b", "Q4_K_M", Regime::kResident};

}  // namespace

TEST_CASE("Rows are grouped from the same chip to all of the regime", "[evidence]") {
  std::vector<LeftOutRow> rows = {row("a", "rtx-3090", "ampere", "llama-3.1-8b", 0.02, 2024),
                                  row("b", "rtx-3090", "ampere", "qwen3-8b", 0.04),
                                  row("c", "rtx-3060-12gb", "ampere", "llama-3.1-8b", -0.3),
                                  row("d", "rtx-4090", "ada", "llama-3.1-8b", 0.5, 0),
                                  row("e", "rtx-3090", "ampere", "llama-3.1-8b"),
                                  row("f", "rtx-3090", "ampere", "llama-3.1-8b")};
  rows[4].metric = SpeedMetric::kPrefill;
  rows[5].regime = Regime::kSplit;
  const Evidence e = evidence(rows, kQuery, SpeedMetric::kDecode, 10);
  REQUIRE(e.groups.size() == 5);
  const auto counts = [&](std::size_t i) {
    return std::vector{e.groups[i].rows, e.groups[i].chips, e.groups[i].sources};
  };
  CHECK(counts(0) == std::vector{1, 1, 1});  // this chip and model
  CHECK(counts(1) == std::vector{2, 1, 2});  // this chip
  CHECK(counts(2) == std::vector{3, 2, 2});  // its family: a, b, c
  CHECK(counts(3) == std::vector{3, 3, 3});  // this model: a, c, d
  CHECK(counts(4) == std::vector{4, 3, 3});
  CHECK(e.groups[4].by_year == std::vector<std::pair<int, int>>{{0, 1}, {2024, 1}, {2025, 2}});
  CHECK(e.groups[0].left_out->median == Approx(0.02));
  // chips count equally: 0.02 and 0.04 are half of the weight of 0.3
  CHECK(e.groups[2].left_out->median == Approx(0.04));
  CHECK(e.groups[2].left_out->p90 == Approx(0.3));
  CHECK(ids(e.nearest) == std::vector<std::string>{"a", "b", "c", "d"});
}

TEST_CASE("The nearest rows are of the chip, then of its family, newer builds first",
          "[evidence]") {
  const std::vector<LeftOutRow> rows = {row("other", "rtx-4090", "ada", "llama-3.1-8b"),
                                        row("family", "rtx-3060-12gb", "ampere", "llama-3.1-8b"),
                                        row("old", "rtx-3090", "ampere", "llama-3.1-8b", 0, 2023),
                                        row("new", "rtx-3090", "ampere", "llama-3.1-8b", 0, 2026),
                                        row("model", "rtx-3090", "ampere", "qwen3-8b")};
  CHECK(ids(evidence(rows, kQuery, SpeedMetric::kDecode, 4).nearest) ==
        std::vector<std::string>{"new", "old", "model", "family"});
  CHECK(evidence(rows, kQuery, SpeedMetric::kDecode, 0).nearest.empty());
}

TEST_CASE("Groups without rows have no error", "[evidence]") {
  const Evidence e = evidence({}, kQuery, SpeedMetric::kPrefill, 3);
  REQUIRE(e.groups.size() == 5);
  for (const EvidenceGroup& g : e.groups) {
    CHECK(g.rows == 0);
    CHECK_FALSE(g.left_out);
  }
  CHECK(e.groups[2].what == "its family, ampere");
  CHECK(e.nearest.empty());
}
