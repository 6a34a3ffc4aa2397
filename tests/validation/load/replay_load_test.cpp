#include "validation/runs/load/replay_load.hpp"

#include <chrono>
#include <memory>
#include <vector>

#include "engine/serve/serving_loop.hpp"
#include "report/serving/request_csv.hpp"
#include "tests/catch.hpp"
#include "tests/engine/serve/hashing_executor.hpp"

using namespace rigcast;
using namespace rigcast::validation;
using engine::fixtures::HashingExecutor;

namespace {

constexpr engine::BatchLimits kLimits{
    .block_tokens = 4, .blocks = 30, .host_blocks = 0, .step_tokens = 16, .step_sequences = 4};

// People who ask several times, with a millisecond between.
Load conversations() {
  Load load;
  load.users = 4;
  load.think_time.value = Seconds{1e-3};
  load.requests = 60;
  load.turns.value = 3;
  load.prompt_tokens.value = UniformLength{5, 20};
  load.output_tokens.value = UniformLength{1, 15};
  load.shared_prefix_tokens.value = 8;
  return load;
}

struct Replayed {
  ReplayedLoad load;
  ServingRun run;
  std::size_t failed = 0;
};

Replayed replayed(HashingExecutor& executor, const Load& load, std::size_t max_waiting = 0) {
  const auto start = std::chrono::steady_clock::now();
  LoadRecorder recorder(start, Bytes{100});
  engine::ServingOptions options{engine::engine_policy(kLimits), 100};
  options.policy.max_waiting = max_waiting;
  auto server = engine::ServingLoop::start(executor, options, &recorder);
  REQUIRE(server.ok());
  auto offered = offer(load, 100);
  REQUIRE(offered.ok());
  LoadPrompts prompts(HashingExecutor::kVocabulary, 1);
  Replayed out;
  out.load = replay_load(**offered, **server, prompts, recorder, start, {});
  (*server)->stop();
  CHECK((*server)->leaks() == "");
  out.run = recorder.run();
  out.failed = recorder.failed();
  return out;
}

}  // namespace

TEST_CASE("A load that is run has the times of each request, and loses no token",
          "[validation][serving]") {
  HashingExecutor executor(kLimits);
  const auto [load, run, failed] = replayed(executor, conversations());
  REQUIRE(run.load.size() == 60);
  CHECK(load.asked == 60);
  CHECK(failed == 0);
  CHECK(load.failure.empty());
  std::int64_t tokens = 0;
  double times = 0;
  for (std::size_t i = 0; i < run.load.size(); ++i) {
    const ServedRequest& r = run.load[i];
    const ServedTimes& t = run.requests[i];
    CHECK(r.arrival <= t.queued);
    CHECK(t.queued <= t.scheduled);
    CHECK(t.scheduled <= t.first_token);
    CHECK(t.first_token <= t.last_token);
    CHECK((t.first_token == t.last_token) == (r.output == 1));
    tokens += r.prompt + r.output - 1;
    times += (t.last_token - t.queued).value;
  }
  CHECK(run.computed_tokens + run.hit_tokens - run.lost_tokens == tokens);
  CHECK(run.hit_tokens > 0);
  // Little's law; a request is counted until its end was told, a little after its last token.
  CHECK(run.waiting + run.running >= times * (1 - 1e-9));  // sums of rounded times
  CHECK(run.peak_running <= 4);
  const ServedLoad served{.run = run, .cache_tokens = 120, .cache_units = 30};
  const std::string csv = request_csv(served);
  CHECK(std::ranges::count(csv, '\n') == 61);
  CHECK(figures_of(served).requests == 60);
}

TEST_CASE("Requests that fail or are refused end for their users, and are in no figure",
          "[validation][serving]") {
  HashingExecutor executor(kLimits);
  executor.before_call = [](int call) {
    if (call == 10) throw std::bad_alloc();
  };
  const auto one = replayed(executor, conversations());
  CHECK(one.failed == 1);
  CHECK(one.load.failure.find("bad_alloc") != std::string::npos);
  CHECK(one.run.load.size() == 59);

  Load burst = conversations();
  burst.arrival = ArrivalProcess::kBurst;
  HashingExecutor other(kLimits);
  const auto some = replayed(other, burst, 2);
  CHECK(some.run.beyond_queue > 0);
  CHECK(some.run.load.size() + some.run.beyond_queue == some.load.asked);
}

TEST_CASE("Prompts of a load share what it says they share", "[validation][serving]") {
  LoadPrompts prompts(1000, 7);
  const auto first = prompts.next({{}, 10, 4, {}, 0});
  REQUIRE(first.size() == 10);
  prompts.add_answer(0, std::vector<std::int32_t>{1, 2, 3, 4});
  const auto second = prompts.next({{}, 20, 4, 0, 14});
  REQUIRE(second.size() == 20);
  CHECK(std::equal(first.begin(), first.end(), second.begin()));
  CHECK(second[12] == 3);
  // Of an answer that is not known yet the rest is random.
  const auto third = prompts.next({{}, 30, 4, 1, 24});
  CHECK(std::equal(second.begin(), second.end(), third.begin()));
  CHECK(LoadPrompts(1000, 7).next({{}, 10, 4, {}, 0}) == first);
  CHECK(LoadPrompts(1000, 8).next({{}, 10, 4, {}, 0}) != first);
}
