// Sequences in lockstep, as llama-batched-bench runs them.
#include "sim/serving/lockstep.hpp"

#include "perfmodel/serial_time.hpp"
#include "tests/catch.hpp"
#include "tests/sim/scenario_fixtures.hpp"

using namespace rigcast;
using fixtures::scenario;
using fixtures::Settings;
using fixtures::with;

namespace {

const Settings kOne = {{"workload.prompt_tokens", "512"},
                       {"workload.output_tokens", "32"},
                       {"workload.context", "544"},
                       {"scheduler.slots", "1"}};

Scenario of_sequences(int count) {
  return scenario(with(kOne, {{"scheduler.slots", std::to_string(count)}}));
}

LockstepTimes times_of(const LockstepLoad& load, const Scenario& s) {
  const auto forecast = forecast_lockstep(s, load);
  REQUIRE(forecast);
  CHECK(forecast->fastest.answers <= forecast->times.answers);
  CHECK(forecast->times.answers <= forecast->slowest.answers);
  return forecast->times;
}

LockstepTimes times_of(const LockstepLoad& load) {
  return times_of(load, of_sequences(load.sequences));
}

}  // namespace

TEST_CASE("One sequence in lockstep has the speeds of a single request", "[serving]") {
  const Scenario s = scenario(kOne);
  const SerialForecast alone(s);
  const LockstepTimes times = times_of({1, 512, 32});
  // Cells of the cache come in 256: one sequence has half of such a step too many in the mean.
  CHECK(times.prompts.value == Approx(alone.prompt().value).epsilon(0.02));
  CHECK(times.answers.value == Approx(32 * alone.mean_token().value).epsilon(0.01));
}

TEST_CASE("Nothing is sampled in lockstep, and no server is in between", "[serving]") {
  const LockstepTimes without = times_of({4, 512, 32});
  Scenario s = of_sequences(4);
  s.runtime.server->logit.value = 1_us;
  s.runtime.server->request.value = s.runtime.server->step.value = 1_s;
  const LockstepTimes with_cost = times_of({4, 512, 32}, s);
  CHECK(without.answers == with_cost.answers);
  CHECK(without.prompts == with_cost.prompts);
}

TEST_CASE("Sequences in lockstep share weights, and prompts if they are told to", "[serving]") {
  const LockstepTimes one = times_of({1, 512, 32}), four = times_of({4, 512, 32});
  CHECK(four.answers > one.answers);
  CHECK(four.answers < 4.0 * one.answers);
  CHECK(four.prompts.value == Approx(4 * one.prompts.value).epsilon(0.1));
  const LockstepTimes shared = times_of({4, 512, 32, true});
  CHECK(shared.prompts == one.prompts);
  CHECK(shared.answers == four.answers);
  const LockstepTimes separate = times_of({4, 512, 32, false, true});
  CHECK(separate.answers.value == Approx(4 * one.answers.value));
}

TEST_CASE("Prompts that nobody can price are refused", "[serving]") {
  const Scenario s = scenario(with(kOne, {{"runtime.batch", "1"}}));
  CHECK_FALSE(forecast_lockstep(s, {1000, 1000, 1}));
}

// A chip whose prompts are faster than its architecture's, and its memory slower.
TEST_CASE("A step of more sequences takes no less time, whatever is known of the chip",
          "[serving]") {
  Seconds before;
  for (const int sequences : {1, 2, 4, 8, 9, 16, 32}) {
    Scenario s = of_sequences(sequences);
    auto& chip = s.runtime.chips[s.rig.gpus.front().id];
    chip.decode.value = 0.8;
    chip.prefill.value = 1.5;
    const Seconds answers = times_of({sequences, 64, 8}, s).answers;
    INFO(sequences);
    // The kernels for more than eight are others, whose products may be faster.
    if (sequences != 9) CHECK(answers >= before);
    before = answers;
  }
}
