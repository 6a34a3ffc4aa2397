#include "engine/serve/serving_loop.hpp"

#include <cstdint>
#include <memory>
#include <random>
#include <stdexcept>
#include <vector>
#include "tests/catch.hpp"

#include "core/base/stop_flag.hpp"
#include "tests/engine/serve/hashing_executor.hpp"
#include "tests/engine/serve/served_answers.hpp"

using namespace rigcast;
using namespace rigcast::engine;
using fixtures::HashingExecutor;
using fixtures::ServedAnswers;

namespace {

using Tokens = std::vector<std::int32_t>;

constexpr BatchLimits kLimits{
    .block_tokens = 4, .blocks = 64, .host_blocks = 0, .step_tokens = 16, .step_sequences = 8};

Tokens prompt_of(std::mt19937& random, int tokens) {
  Tokens prompt;
  for (int i = 0; i < tokens; ++i)
    prompt.push_back(std::int32_t(random() % HashingExecutor::kVocabulary));
  return prompt;
}

std::unique_ptr<ServingLoop> serve(BatchExecutor& executor, const SchedulerPolicy& policy,
                                   ServingObserver* observer = nullptr) {
  auto loop = ServingLoop::start(executor, {policy, 0}, observer);
  REQUIRE(loop.ok());
  return *std::move(loop);
}

// What happened, in numbers.
struct Counts : ServingObserver {
  void admitted(CompletionId, Time, const FoundTokens& found) override {
    hits += found.here;
    host_hits += found.on_host;
  }
  void preempted(CompletionId, Time, TokenCount tokens) override {
    ++preemptions;
    lost += tokens;
  }
  void copied(Time, const CopiedBlocks& blocks) override {
    to += blocks.to_host;
    from += blocks.from_host;
  }
  void stepped(const ServedStep& step) override { computed += step.tokens; }
  TokenCount hits = 0, host_hits = 0, lost = 0, computed = 0;
  std::size_t preemptions = 0, to = 0, from = 0;
};

}  // namespace

TEST_CASE("a request that cannot be computed is refused when it is submitted") {
  HashingExecutor executor(kLimits);
  auto loop = serve(executor, engine_policy(kLimits));
  CHECK(loop->context() == 256);
  const auto refusal = [&](Tokens prompt, TokenCount answer) {
    const auto id = loop->submit({std::move(prompt), answer});
    REQUIRE_FALSE(id.ok());
    return id.error().message;
  };
  CHECK(refusal({}, 1) == "a prompt without tokens");
  CHECK(refusal({1}, 0) == "an answer has at least one token");
  CHECK(refusal(Tokens(100), 157) ==
        "100 tokens of prompt and 157 of answer exceed the context of 256");
  CHECK(refusal({1, 1000}, 1) == "token 1000 is not in the vocabulary of 1000");
  CHECK(refusal({-1}, 1) == "token -1 is not in the vocabulary of 1000");
  loop->stop();
  CHECK(refusal({1}, 1) == "the server stops");
  CHECK(loop->leaks().empty());

  SchedulerPolicy slots = engine_policy(kLimits);
  slots.layout = KvLayout::kSlots;
  CHECK_FALSE(ServingLoop::start(executor, {slots, 0}).ok());
  CHECK_FALSE(ServingLoop::start(executor, {engine_policy(kLimits), 257}).ok());
}

TEST_CASE("a request may not have more tokens than the executor's sequences") {
  BatchLimits limits = kLimits;
  limits.sequence_tokens = 100;
  HashingExecutor executor(limits);
  CHECK(serve(executor, engine_policy(limits))->context() == 100);
  CHECK(ServingLoop::start(executor, {engine_policy(limits), 100}).ok());
  const auto refused = ServingLoop::start(executor, {engine_policy(limits), 101});
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.error().message == "sequences have up to 100 tokens here, a request may have 101");
}

TEST_CASE("answers end with a stop token, or at their length") {
  HashingExecutor executor(kLimits);
  auto loop = serve(executor, engine_policy(kLimits));
  const Tokens whole = HashingExecutor::answer({1, 2, 3}, 10);
  ServedAnswers answers;
  REQUIRE(answers.ask(*loop, 0, {{1, 2, 3}, 10}));
  REQUIRE(answers.ask(*loop, 1, {{1, 2, 3}, 10, {}, {whole[4]}}));
  answers.wait_for(2);
  CHECK(answers[0].ids == whole);
  CHECK(answers[0].ends[0].reason == FinishReason::kLength);
  CHECK(answers[0].ends[0].prompt_tokens == 3);
  CHECK(answers[0].ends[0].output_tokens == 10);
  CHECK(answers[1].ids == Tokens(whole.begin(), whole.begin() + 4));
  CHECK(answers[1].ends[0].reason == FinishReason::kStop);
  CHECK(answers[1].ends[0].output_tokens == 4);
  loop->stop();
  CHECK(loop->state().completed == 2);
  CHECK(loop->leaks().empty());
}

TEST_CASE("a later turn finds what was said before") {
  HashingExecutor executor(kLimits);
  Counts counts;
  auto loop = serve(executor, engine_policy(kLimits), &counts);
  ServedAnswers answers;
  Tokens said = {5, 6, 7, 8, 9};
  for (int turn = 0; turn < 4; ++turn) {
    REQUIRE(answers.ask(*loop, turn, {said, 6}));
    answers.wait_for(std::size_t(turn) + 1);
    REQUIRE(answers[turn].ids == HashingExecutor::answer(said, 6));
    // All but the answer's last token are in blocks, of which the full ones are found.
    const TokenCount before = turn == 0 ? 0 : TokenCount(said.size() - 3 - 1) / 4 * 4;
    CHECK(answers[turn].ends[0].cached_tokens == before);
    const auto& ids = answers[turn].ids;
    said.insert(said.end(), ids.begin(), ids.end());
    said.insert(said.end(), {1, 2, std::int32_t(turn)});
  }
  loop->stop();
  CHECK(counts.hits > 0);
  CHECK(loop->state().cached_prompt_tokens == std::uint64_t(counts.hits));
  CHECK(loop->leaks().empty());
}

TEST_CASE("where blocks run out, the last one that was admitted is preempted and computed anew") {
  BatchLimits limits = kLimits;
  limits.blocks = 12;  // 48 tokens, of which three requests want 24 each
  for (const int host_blocks : {0, 32}) {
    limits.host_blocks = host_blocks;
    HashingExecutor executor(limits);
    Counts counts;
    auto loop = serve(executor, engine_policy(limits), &counts);
    ServedAnswers answers;
    std::mt19937 random(3);
    std::vector<Tokens> prompts;
    for (int i = 0; i < 6; ++i) {
      prompts.push_back(prompt_of(random, 8));
      REQUIRE(answers.ask(*loop, i, {prompts.back(), 24}));
    }
    answers.wait_for(6);
    for (int i = 0; i < 6; ++i)
      REQUIRE(answers[i].ids == HashingExecutor::answer(prompts[std::size_t(i)], 24));
    loop->stop();
    CHECK(loop->leaks().empty());
    CHECK(counts.preemptions > 0);
    CHECK(loop->state().preempted == counts.preemptions);
    const TokenCount once = 6 * (8 + 24 - 1);
    CHECK(counts.computed > once);
    if (host_blocks == 0) {
      CHECK(counts.from == 0);
    } else {
      // What was moved to the host comes back, and is not computed again.
      CHECK(counts.from > 0);
      CHECK(counts.computed <= once + TokenCount(counts.preemptions) * 4);
      CHECK(counts.computed - once < counts.lost);
    }
  }
}

TEST_CASE("no more requests wait than may, beside those that may run") {
  for (const int at_once : {1, 3}) {
    BatchLimits limits = kLimits;
    limits.step_sequences = at_once;
    HashingExecutor executor(limits);
    SchedulerPolicy policy = engine_policy(limits);
    policy.max_waiting = 2;
    auto loop = serve(executor, policy);
    ServedAnswers answers;
    std::mutex holds;
    holds.lock();
    executor.before_call = [&](int call) {
      if (call == 2) std::lock_guard lock(holds);
    };
    const int taken = at_once + 2;
    REQUIRE(answers.ask(*loop, 0, {{1}, 5}));
    answers.wait_for_tokens(0, 1);  // it runs, and the others come while its next step is held
    for (int i = 1; i < taken; ++i) REQUIRE(answers.ask(*loop, i, {{i + 1}, 5}));
    const auto id = loop->submit({{9}, 5});
    REQUIRE_FALSE(id.ok());
    CHECK(id.error().kind == ErrorKind::kDoesNotFit);
    CHECK(loop->state().waiting == taken - 1);
    holds.unlock();
    answers.wait_for(std::size_t(taken));
    loop->stop();
    CHECK(loop->state().refused == 1);
    CHECK(loop->state().completed == std::uint64_t(taken));
  }
}

TEST_CASE("a stopped loop ends what runs and what waits") {
  HashingExecutor executor(kLimits);
  auto loop = serve(executor, engine_policy(kLimits));
  ServedAnswers answers;
  for (int i = 0; i < 20; ++i) REQUIRE(answers.ask(*loop, i, {{i + 1}, 250}));
  loop->stop();
  CHECK(answers.ended() == 20);
  CHECK(loop->leaks().empty());
  CHECK(loop->state().running == 0);
}

TEST_CASE("an interrupted step ends all requests") {
  HashingExecutor executor(kLimits);
  executor.before_call = [](int call) {
    if (call == 3) throw Interrupted();
  };
  auto loop = serve(executor, engine_policy(kLimits));
  ServedAnswers answers;
  REQUIRE(answers.ask(*loop, 0, {{1}, 100}));
  answers.wait_for(1);
  CHECK(answers[0].ends[0].reason == FinishReason::kCancelled);
  CHECK(answers[0].ids.size() == 2);
  loop->stop();
  CHECK(loop->leaks().empty());
}

namespace {

struct RandomLoad {
  std::vector<Tokens> prompts;
  std::vector<TokenCount> answers;
};

// Some prompts begin like others, and some continue them with their answer.
RandomLoad random_load(std::mt19937& random, int requests) {
  RandomLoad load;
  for (int i = 0; i < requests; ++i) {
    Tokens prompt;
    if (i > 0 && random() % 2 == 0) {
      const auto other = random() % std::size_t(i);
      prompt = load.prompts[other];
      if (random() % 2 == 0)
        for (const auto id : HashingExecutor::answer(prompt, load.answers[other]))
          prompt.push_back(id);
      prompt.resize(std::min<std::size_t>(prompt.size(), 1 + random() % 60));
    }
    for (const auto id : prompt_of(random, int(1 + random() % 30))) prompt.push_back(id);
    load.prompts.push_back(prompt);
    load.answers.push_back(TokenCount(1 + random() % 24));
  }
  return load;
}

}  // namespace

TEST_CASE("a step or a copy that fails ends one request, and the others have their answers") {
  BatchLimits limits = kLimits;
  limits.blocks = 32;
  limits.host_blocks = 24;
  std::mt19937 random(11);
  const RandomLoad load = random_load(random, 12);
  int sites = 1;
  for (int site = 0; site <= sites; ++site) {  // site 0: nothing fails
    HashingExecutor executor(limits);
    executor.before_call = [&](int call) {
      if (call == site && site % 2 == 0) throw std::bad_alloc();
      if (call == site) throw MachineError("the copy engine is gone");
    };
    auto loop = serve(executor, engine_policy(limits));
    ServedAnswers answers;
    for (std::size_t i = 0; i < load.prompts.size(); ++i)
      REQUIRE(answers.ask(*loop, int(i), {load.prompts[i], load.answers[i]}));
    answers.wait_for(load.prompts.size());
    loop->stop();
    REQUIRE(loop->leaks() == "");
    int failed = 0;
    for (std::size_t i = 0; i < load.prompts.size(); ++i) {
      const auto answer = answers[int(i)];
      REQUIRE(answer.ends.size() == 1);
      if (answer.ends[0].reason == FinishReason::kFailed) {
        ++failed;
        const std::string& why = answer.ends[0].error;
        CHECK(why.find(site % 2 == 0 ? "bad_alloc" : "the copy engine is gone") !=
              std::string::npos);
        continue;
      }
      REQUIRE(answer.ends[0].reason == FinishReason::kLength);
      REQUIRE(answer.ids == HashingExecutor::answer(load.prompts[i], load.answers[i]));
    }
    if (site == 0) {
      sites = executor.calls();
      CHECK(failed == 0);
      CHECK(sites > 20);
    } else {
      CHECK(failed <= 1);  // none, if a copy of a request failed that has its whole answer
    }
  }
}

TEST_CASE("requests of all lengths that are cancelled at any time leave nothing behind") {
  BatchLimits limits = kLimits;
  limits.blocks = 40;
  for (const int host_blocks : {0, 30}) {
    limits.host_blocks = host_blocks;
    std::mt19937 random(17);
    const RandomLoad load = random_load(random, 10'000);
    HashingExecutor executor(limits);
    Counts counts;
    auto loop = serve(executor, engine_policy(limits), &counts);
    ServedAnswers answers;
    std::size_t cancelled = 0;
    for (std::size_t i = 0; i < load.prompts.size(); ++i) {
      CompletionId id = 0;
      REQUIRE(answers.ask(*loop, int(i), {load.prompts[i], load.answers[i]}, &id));
      if (random() % 5 == 0) {
        if (random() % 2 == 0) answers.wait_for_tokens(int(i), 1 + random() % 3);
        loop->cancel(id);
        ++cancelled;
      }
      if (random() % 3 == 0) loop->cancel(1 + random() % (id + 5));  // ended, or of nobody
      if (i % 50 == 49) answers.wait_for(i - 20);
    }
    answers.wait_for(load.prompts.size());
    loop->stop();
    const CompletionsState state = loop->state();
    CHECK(loop->leaks() == "");
    CHECK(state.blocks_used == 0);
    CHECK(state.running + state.waiting == 0);
    CHECK(state.completed + state.cancelled == load.prompts.size());
    CHECK(state.cancelled > cancelled / 4);
    for (std::size_t i = 0; i < load.prompts.size(); ++i) {
      const auto answer = answers[int(i)];
      REQUIRE(answer.ends.size() == 1);
      Tokens whole = HashingExecutor::answer(load.prompts[i], load.answers[i]);
      if (answer.ends[0].reason == FinishReason::kCancelled) {
        REQUIRE(answer.ids.size() <= whole.size());
        whole.resize(answer.ids.size());
      }
      REQUIRE(answer.ids == whole);
    }
    CHECK(counts.preemptions > 0);
    CHECK(counts.hits > 0);
    CHECK((counts.host_hits > 0) == (host_blocks > 0));
  }
}
