// Steps that pass through the stages of a pipeline, as vLLM's scheduler sends them.
#include <random>
#include <utility>

#include "tests/sim/serving/serving_fixture.hpp"

using namespace rigcast;
using fixtures::served;

namespace {

SchedulerPolicy pipeline(int stages, TokenCount step_tokens = 256) {
  SchedulerPolicy p;
  p.stages = stages;
  p.sequences = 64;
  p.step_tokens = step_tokens;
  return p;
}

// A step of so many seconds, of which each stage takes the same.
StepTime even(int stages, double seconds) {
  return [=](const StepWork&) {
    sim::StepUse use{Seconds{seconds}};
    for (int i = 1; i < stages; ++i)
      use.later_stages[std::size_t(i - 1)] = Seconds{seconds / stages};
    return use;
  };
}

// Stages of unequal length, which grow with the tokens.
StepTime uneven(int stages) {
  return [=](const StepWork& work) {
    sim::StepUse use{fixtures::step_time(work)};
    const double weights = stages * (stages + 1) / 2.0;
    for (int i = 1; i < stages; ++i)
      use.later_stages[std::size_t(i - 1)] = use.time * (double(i + 1) / weights);
    return use;
  };
}

}  // namespace

TEST_CASE("A request alone has every token after a whole step", "[serving][pipeline]") {
  const ServingRun run = served({{Seconds{0}, 10, 5, {}, 0}}, pipeline(4), 100, even(4, 0.4));
  CHECK(run.requests[0].first_token.value == Approx(0.4).epsilon(1e-12));
  CHECK(run.requests[0].last_token.value == Approx(5 * 0.4).epsilon(1e-12));
  CHECK(run.steps == 5);
  CHECK(run.busy.value == Approx(2.0).epsilon(1e-12));
}

TEST_CASE("Chunks of a prompt follow one another through the stages", "[serving][pipeline]") {
  // Four chunks, two stages of 0.1 s: the last one leaves the second stage after five of them.
  const ServingRun run =
      served({{Seconds{0}, 1024, 1, {}, 0}}, pipeline(2, 256), 100, even(2, 0.2));
  CHECK(run.steps == 4);
  CHECK(run.requests[0].first_token.value == Approx(0.5).epsilon(1e-12));
  // One after the other without a pipeline.
  const ServingRun alone =
      served({{Seconds{0}, 1024, 1, {}, 0}}, pipeline(1, 256), 100, even(1, 0.2));
  CHECK(alone.requests[0].first_token.value == Approx(0.8).epsilon(1e-12));
}

TEST_CASE("Prompts of a step stay together: a second group fills a second stage",
          "[serving][pipeline]") {
  // Two prompts of a whole step each: their answers take turns, two steps in the time of one.
  std::vector<ServedRequest> two(2, {Seconds{0}, 256, 11, {}, 0});
  const ServingRun filled = served(two, pipeline(2, 256), 100, even(2, 0.2));
  CHECK(filled.steps == 2 * 11);
  CHECK(filled.end.value == Approx(0.1 + 11 * 0.2).epsilon(1e-12));
  // Short ones are in one step, while whose tokens are computed nobody has another to compute.
  for (ServedRequest& r : two) r.prompt = 8;
  const ServingRun together = served(two, pipeline(2, 256), 100, even(2, 0.2));
  CHECK(together.steps == 11);
  CHECK(together.end.value == Approx(11 * 0.2).epsilon(1e-12));
}

TEST_CASE("The slowest stage bounds the steps", "[serving][pipeline]") {
  // 0.1 s and 0.3 s: after the first token of each, a step every 0.3 s.
  const StepTime time = [](const StepWork&) {
    sim::StepUse use{Seconds{0.4}};
    use.later_stages[0] = Seconds{0.3};
    return use;
  };
  const std::vector<ServedRequest> two(2, {Seconds{0}, 256, 6, {}, 0});
  const ServingRun run = served(two, pipeline(2, 256), 100, time);
  CHECK(run.end.value == Approx(0.1 + 12 * 0.3).epsilon(1e-12));
}

TEST_CASE("Who arrives while the server waits for a step is scheduled when it has ended",
          "[serving][pipeline]") {
  const std::vector<ServedRequest> load{{Seconds{0}, 8, 3, {}, 0}, {Seconds{0.05}, 8, 1, {}, 0}};
  const ServingRun run = served(load, pipeline(2), 100, even(2, 0.2));
  CHECK(run.requests[1].scheduled.value == Approx(0.2).epsilon(1e-12));
}

TEST_CASE("A pipeline loses no token, no block and no second", "[serving][pipeline]") {
  for (const int stages : {2, 3, 5})
    for (const std::size_t blocks : {30U, 60U, 1000U}) {
      INFO(stages << " stages, " << blocks << " blocks");
      const auto load = fixtures::two_turns(800, Seconds{0.004});
      const ServingRun run = served(load, pipeline(stages, 64), blocks, uneven(stages));
      fixtures::check_nothing_lost(run, load);
      CHECK(run.free_blocks_at_end == blocks);
      CHECK(run.busy <= run.end);
      CHECK(run.with_prompts <= run.busy);
      std::int64_t tokens = 0, preemptions = 0;
      for (std::size_t i = 0; i < load.size(); ++i) {
        tokens += load[i].output - 1;
        preemptions += run.requests[i].preemptions;
      }
      CHECK(run.gaps.count() == tokens);
      CHECK((preemptions > 0) == (blocks < 100));
    }
}

TEST_CASE("More stages of the same time never serve a load later", "[serving][pipeline]") {
  const std::vector<ServedRequest> load(40, {Seconds{0}, 200, 20, {}, 0});
  double before = served(load, pipeline(1, 256), 2000, even(1, 0.24)).end.value;
  for (const int stages : {2, 3, 4}) {
    const double end = served(load, pipeline(stages, 256), 2000, even(stages, 0.24)).end.value;
    CHECK(end < before);
    before = end;
  }
}

TEST_CASE("A pipeline is refused with rules that nobody has for one", "[serving][pipeline]") {
  const std::vector<ServedRequest> load{{Seconds{0}, 8, 3, {}, 0}};
  SchedulerPolicy p = pipeline(2);
  p.order = StepOrder::kPromptsFirst;
  CHECK_FALSE(serve(load, p, TokenCount(1600), even(2, 0.2)));
  CHECK_FALSE(serve(load, pipeline(kMaxStages + 1), TokenCount(1600), even(2, 0.2)));
  CHECK(serve(load, pipeline(kMaxStages), TokenCount(1600), even(kMaxStages, 0.2)));
}
