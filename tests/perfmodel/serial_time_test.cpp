#include "perfmodel/serial_time.hpp"

#include "tests/catch.hpp"
#include "tests/perfmodel/machine_fixture.hpp"

using namespace rigcast;

namespace {

Scenario piped(double share) {
  Scenario s;
  s.runtime.batch.pipeline.value = share;
  return s;
}

double saving(double share, const std::vector<double>& by_device, double ubatches) {
  return pipeline_saving(piped(share), by_device, ubatches).value;
}

}  // namespace

TEST_CASE("Several ubatches hide the time of all GPUs but the busiest", "[serial]") {
  // A GPU starts on the next ubatch while the next GPU has this one: of four ubatches of 3 and 1
  // seconds, three of the single seconds are hidden.
  CHECK(saving(1.0, {3, 1}, 4) == Approx(3.0));
  CHECK(saving(1.0, {1, 3}, 4) == Approx(3.0));
  CHECK(saving(1.0, {2, 2, 2, 2}, 11) == Approx(60.0));
  CHECK(saving(0.5, {3, 1}, 4) == Approx(1.5));
  CHECK(saving(0.0, {3, 1}, 4) == 0);
}

TEST_CASE("Stages hide all of it, whatever a runtime's other batches do", "[serial]") {
  Scenario stages = piped(0);
  stages.placement.groups.pipeline = 2;
  CHECK(pipeline_saving(stages, {3, 1}, 4).value == Approx(3.0));
}

TEST_CASE("One GPU, or one ubatch, has nothing to hide", "[serial]") {
  CHECK(saving(1.0, {}, 4) == 0);
  CHECK(saving(1.0, {3}, 4) == 0);
  CHECK(saving(1.0, {3, 1}, 1) == 0);
  CHECK(saving(1.0, {3, 0}, 4) == 0);
}

TEST_CASE("No pipeline ends before its busiest GPU does", "[serial]") {
  for (const std::vector<double>& by_device :
       {std::vector<double>{3, 1}, {1, 1, 1}, {0.1, 7, 2, 2}})
    for (const double ubatches : {2.0, 3.0, 40.0}) {
      double all = 0, busiest = 0;
      for (const double t : by_device) {
        all += t;
        busiest = std::max(busiest, t);
      }
      // The first ubatch goes through all of them, the others are as fast as the busiest one.
      CHECK(all * ubatches - saving(1.0, by_device, ubatches) ==
            Approx(all + (ubatches - 1) * busiest));
    }
}
