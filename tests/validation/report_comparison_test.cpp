// Activities of a run, compared with those of its forecast.
#include "validation/report_comparison.hpp"

#include <algorithm>
#include <memory>

#include "tests/catch.hpp"

using namespace rigcast;

namespace {

TraceEvent event(ActivityKind kind, TokenCount token, double seconds,
                 Phase phase = Phase::kDecode) {
  TraceEvent e;
  e.phase = phase;
  e.kind = kind;
  e.token = token;
  e.start_s = double(token);
  e.finish_s = e.start_s + seconds;
  return e;
}

double measured(const std::vector<ActivityRow>& rows, Phase phase, ActivityKind kind) {
  for (const ActivityRow& r : rows)
    if (r.phase == phase && r.kind == kind) return r.measured_s;
  return -1;
}

}  // namespace

TEST_CASE("A run's activities are means of the tokens that went through the model",
          "[validation]") {
  using enum ActivityKind;
  // A prompt of 10 tokens, then two decoded: three are sampled, the first by the prompt's logits.
  const std::vector<TraceEvent> events = {
      event(kFfn, 0, 0.5, Phase::kPrefill),
      event(kSample, 10, 0.001),
      event(kFfn, 10, 0.2),
      event(kHead, 10, 0.01),
      event(kSample, 11, 0.001),
      event(kFfn, 11, 0.4),
      event(kHead, 11, 0.03),
      event(kSample, 12, 0.001),
  };
  const auto rows = activities_of(events);
  CHECK(measured(rows, Phase::kPrefill, kFfn) == Approx(0.5));
  CHECK(measured(rows, Phase::kDecode, kFfn) == Approx(0.3));
  CHECK(measured(rows, Phase::kDecode, kHead) == Approx(0.02));
  CHECK(measured(rows, Phase::kDecode, kSample) == Approx(0.001));
}

TEST_CASE("A forecast's activities stand beside the run's, whoever has them", "[validation]") {
  using enum ActivityKind;
  const auto run = activities_of(std::vector{event(kFfn, 10, 0.2), event(kHandoff, 10, 0.05)});
  const auto rows =
      compare_activities(std::vector{event(kFfn, 11, 0.3), event(kHead, 11, 0.1)}, run);
  REQUIRE(rows.size() == 3);
  for (const ActivityRow& r : rows) {
    CHECK(r.predicted_s == Approx(r.kind == kFfn ? 0.3 : r.kind == kHead ? 0.1 : 0));
    CHECK(r.measured_s == Approx(r.kind == kFfn ? 0.2 : r.kind == kHandoff ? 0.05 : 0));
  }
}

TEST_CASE("A prompt of ids has no text to tokenize, in the run or in what it is compared with",
          "[validation]") {
  Report forecast, run;
  forecast.resident = TtftBreakdown{};
  forecast.resident->tokenize = Seconds{0.1};
  forecast.resident->prefill = Seconds{0.3};
  run.resident = TtftBreakdown{};
  run.resident->prefill = Seconds{0.35};
  const auto first_token = [&](RuntimeRules rules) {
    Scenario scenario;
    scenario.runtime.rules = rules;
    forecast.scenario = std::make_shared<const Scenario>(scenario);
    const auto rows = compare_reports("a run", forecast, run, {});
    const auto total = std::ranges::find(rows, "ttft.resident.total_s", &ValidationRow::metric);
    REQUIRE(total != rows.end());
    return total->predicted;
  };
  CHECK(first_token(RuntimeRules::kRigcast) == Approx(0.3));
  CHECK(first_token(RuntimeRules::kLlamaCpp) == Approx(0.4));  // a server is sent text
  run.resident->tokenize = Seconds{0.05};
  CHECK(first_token(RuntimeRules::kRigcast) == Approx(0.4));
}
