#include "core/base/metrics.hpp"

#include <numeric>
#include <vector>

#include "tests/catch.hpp"

using namespace rigcast;

TEST_CASE("The time to the first token is its time stamp", "[metrics]") {
  CHECK(time_to_first_token({{0.3, 0.4}}).value == 0.3);
  CHECK(time_to_first_token({{}}).value == 0.0);
}

TEST_CASE("Speed counts the gaps between tokens, not the tokens", "[metrics]") {
  // Five tokens at 1.0, 1.1, ... 1.4: four gaps in 0.4 s. The prefill before 1.0 has no part in it.
  CHECK(tokens_per_second({{1.0, 1.1, 1.2, 1.3, 1.4}}) == Approx(10.0));
  CHECK(tokens_per_second({{101.0, 101.1, 101.2, 101.3, 101.4}}) == Approx(10.0));
}

TEST_CASE("One token has no speed, and neither has none", "[metrics]") {
  CHECK(tokens_per_second({{}}) == 0.0);
  CHECK(tokens_per_second({{2.0}}) == 0.0);
  CHECK(tokens_per_second({{2.0, 2.0}}) == 0.0);
}

TEST_CASE("Gaps are the differences of neighbours, and their mean is 1 / TPS", "[metrics]") {
  const TokenTimes times{{0.5, 0.6, 0.8, 1.2}};
  const auto gaps = token_gaps(times);
  REQUIRE(gaps.size() == 3);
  CHECK(gaps[0] == Approx(0.1));
  CHECK(gaps[1] == Approx(0.2));
  CHECK(gaps[2] == Approx(0.4));
  CHECK(summarize(gaps).mean.value == Approx(1.0 / tokens_per_second(times)));
  CHECK(token_gaps({{0.5}}).empty());
}

TEST_CASE("Percentiles are by nearest rank, whatever the order", "[metrics]") {
  // 1 to 100: the 50th smallest is 50, the 90th 90, the 99th 99.
  std::vector<double> gaps(100);
  std::iota(gaps.rbegin(), gaps.rend(), 1.0);
  const TpotSummary s = summarize(gaps);
  CHECK(s.mean.value == Approx(50.5));
  CHECK(s.p50.value == 50.0);
  CHECK(s.p90.value == 90.0);
  CHECK(s.p99.value == 99.0);
}

TEST_CASE("With few gaps the high percentiles are the largest one", "[metrics]") {
  const TpotSummary three = summarize(std::vector<double>{3.0, 1.0, 2.0});
  CHECK(three.p50.value == 2.0);
  CHECK(three.p90.value == 3.0);
  CHECK(three.p99.value == 3.0);
  const TpotSummary one = summarize(std::vector<double>{0.25});
  CHECK(one.mean.value == 0.25);
  CHECK(one.p50.value == 0.25);
  CHECK(one.p99.value == 0.25);
}

TEST_CASE("No gaps give zeros", "[metrics]") {
  const TpotSummary s = summarize({});
  CHECK(s.mean.value == 0.0);
  CHECK(s.p99.value == 0.0);
}
