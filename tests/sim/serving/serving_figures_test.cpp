// Percentiles, means over time and the state of a served load.
#include "report/serving/serving_figures.hpp"

#include <cmath>
#include <random>

#include "tests/sim/serving/serving_fixture.hpp"

using namespace rigcast;
using fixtures::served;

namespace {

// Requests of one token, each of which took `ttft(i)` seconds.
template <class Ttft>
ServingRun run_of(std::size_t count, Ttft ttft) {
  ServingRun run;
  for (std::size_t i = 0; i < count; ++i) {
    const Seconds at{double(i)};
    run.load.push_back({at, 10, 1, {}, 0});
    ServedTimes t;
    t.scheduled = at;
    t.first_token = t.last_token = at + Seconds{ttft(i)};
    run.requests.push_back(t);
  }
  run.end = Seconds{double(count)};
  run.busy = Seconds{1};
  return run;
}

ServingFigures figures(const ServingRun& run, const Slo& slo = {}) {
  return figures_of({.run = run, .cache_tokens = 160, .cache_units = 10, .slo = slo});
}

// One slot with steps of a second, and gaps of an exponential distribution.
ServingRun queue_with(double rate, std::size_t count) {
  std::mt19937_64 random(41);
  std::vector<ServedRequest> load(count);
  double now = 0;
  for (ServedRequest& r : load) {
    now -= std::log((double(random() >> 11) + 0.5) / 9007199254740992.0) / rate;
    r = {Seconds{now}, 1, 1, {}, 0};
  }
  SchedulerPolicy policy;
  policy.sequences = 1;
  return served(load, policy, 1000, [](const StepWork&) { return Seconds{1}; });
}

}  // namespace

TEST_CASE("Percentiles are those of the requests, p99 of a thousand of them", "[serving]") {
  // 1 to 1,000 ms in an order that does not rise.
  const auto ttft = [](std::size_t i) { return 0.001 * double(1 + i * 37 % 1000); };
  const ServingFigures f = figures(run_of(1000, ttft));
  const double left = double(f.left_out);
  CHECK(left <= 500);
  CHECK(f.requests == 1000);
  CHECK(f.ttft.p50 == Approx(0.5).margin(0.001 * (1 + left)));
  CHECK(f.ttft.p95 == Approx(0.95).margin(0.001 * (1 + left)));
  REQUIRE(f.ttft.p99);
  CHECK(*f.ttft.p99 == Approx(0.99).margin(0.001 * (1 + left)));
  CHECK_FALSE(figures(run_of(999, ttft)).ttft.p99);
  CHECK(f.requests_per_s == Approx(1));
  CHECK(f.prompt_tokens_per_s == Approx(10));
}

TEST_CASE("Requests before the server has filled are left out of percentiles", "[serving]") {
  const auto rising = [](std::size_t i) {
    return i < 200 ? 0.005 * double(i) : 1 + 0.01 * double(i % 7);
  };
  const ServingFigures f = figures(run_of(2000, rising));
  CHECK(f.left_out >= 150);
  CHECK(f.left_out <= 250);
  CHECK(f.ttft.mean == Approx(1.03).epsilon(0.01));
  const auto steady = [](std::size_t i) { return 1 + 0.01 * double(i * 37 % 101); };
  CHECK(figures(run_of(2000, steady)).left_out < 500);
}

TEST_CASE("An SLO is met where each limit is, at its percentile", "[serving]") {
  const ServingRun run = run_of(1000, [](std::size_t i) { return i % 10 == 0 ? 3.0 : 0.1; });
  Slo slo;
  slo.ttft = LatencyLimit{Seconds{2}, 89};
  CHECK(figures(run, slo).broken.empty());
  CHECK(*figures(run, slo).share_in_slo == Approx(0.9).margin(0.001));
  CHECK(*figures(run, slo).goodput == Approx(0.9).margin(0.001));
  slo.ttft->percentile = 95;
  CHECK(figures(run, slo).broken == "TTFT p95");
  CHECK_FALSE(figures(run, slo).meets_slo());
  CHECK_FALSE(figures(run).goodput);
}

TEST_CASE("A server that does not keep up is told", "[serving]") {
  CHECK(state_of(queue_with(0.7, 2000)) == ServingState::kStable);
  CHECK(state_of(queue_with(1.3, 2000)) == ServingState::kOverloaded);
  CHECK(state_of(queue_with(3.0, 200)) == ServingState::kOverloaded);
}

TEST_CASE("Gaps between tokens are counted within half a percent", "[serving]") {
  GapHistogram gaps;
  for (int i = 1; i <= 1000; ++i) gaps.add(Seconds{0.001 * i}, 2);
  CHECK(gaps.count() == 2000);
  CHECK(gaps.mean() == Approx(0.5005));
  // The middle of a class of one percent.
  for (const double share : {0.01, 0.5, 0.95, 0.99, 1.0})
    CHECK(gaps.quantile(share) == Approx(share).epsilon(0.0051));
  // A request that waits for the prompts of another has one long gap.
  SchedulerPolicy policy;
  policy.order = StepOrder::kPromptsFirst;
  policy.step_tokens = 16;
  const std::vector<ServedRequest> load{{Seconds{0}, 1, 11, {}, 0}, {Seconds{2.5}, 64, 1, {}, 0}};
  const ServingRun run = served(load, policy, 100, [](const StepWork&) { return Seconds{1}; });
  CHECK(run.gaps.count() == 10);
  CHECK(run.gaps.quantile(0.9) == Approx(1).epsilon(0.0051));
  CHECK(run.gaps.quantile(1.0) == Approx(5).epsilon(0.0051));
}
