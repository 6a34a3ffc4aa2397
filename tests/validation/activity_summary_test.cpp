// Activities of two runs, summed up by hand.
#include "validation/activity_summary.hpp"

#include "tests/catch.hpp"

using namespace rigcast;

TEST_CASE("Activities are summed up by their share of a phase and their errors", "[validation]") {
  const auto row = [](const char* id, const char* metric, double predicted, double measured) {
    ValidationRow r;
    r.id = id;
    r.metric = metric;
    r.predicted = predicted;
    r.measured = measured;
    return r;
  };
  std::vector rows = {
      row("a", "activities.prefill.fetch_weights", 2, 1), row("a", "activities.prefill.ffn", 3, 3),
      row("b", "activities.prefill.ffn", 1, 2), row("b", "decode.tokens_per_s", 9, 1),
      row("c", "activities.prefill.ffn", 9, 1)};
  rows.back().counted = false;
  const auto all = summarize_activities(rows);
  REQUIRE(all.size() == 2);
  CHECK(all[0].activity == "prefill fetch weights");
  CHECK(all[0].runs == 1);
  CHECK(all[0].share == Approx(0.25));
  CHECK(all[0].worst_error == Approx(1));
  CHECK(all[1].runs == 2);
  CHECK(all[1].share == Approx((0.75 + 1) / 2));
  CHECK(all[1].median_abs_error == Approx(0.25));
  CHECK(all[1].median_error == Approx(-0.25));
  CHECK(all[1].worst_error == Approx(-0.5));
}
