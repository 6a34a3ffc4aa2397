// Checkpoints of sequences' states in a server, and of the windows of layers that keep no more: how
// far requests find what others have begun with, what is computed anew, and that no state and no
// window is taken for another.

#include <algorithm>
#include <cstdint>
#include <memory>
#include <random>
#include <vector>

#include "core/model/model_spec.hpp"
#include "core/scenario/engine_sizes.hpp"
#include "engine/serve/serving_loop.hpp"
#include "tests/catch.hpp"
#include "tests/engine/serve/hashing_executor.hpp"
#include "tests/engine/serve/served_answers.hpp"

using namespace rigcast;
using namespace rigcast::engine;
using fixtures::HashingExecutor;
using fixtures::ServedAnswers;

namespace {

using Tokens = std::vector<std::int32_t>;

constexpr BatchLimits kLimits{.block_tokens = 4,
                              .blocks = 128,
                              .host_blocks = 0,
                              .step_tokens = 64,
                              .step_sequences = 4,
                              .checkpoints = 8};
// Of a block, and of what is left out of a prompt's end, where an answer begins.
constexpr TokenCount kBehindCheckpoint = 4 + 8;

Tokens random_tokens(std::mt19937& random, int count) {
  Tokens tokens;
  for (int i = 0; i < count; ++i)
    tokens.push_back(std::int32_t(random() % HashingExecutor::kVocabulary));
  return tokens;
}

Tokens joined(Tokens first, const Tokens& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

struct Computed : ServingObserver {
  void stepped(const ServedStep& step) override { tokens += step.tokens; }
  TokenCount tokens = 0;
};

std::unique_ptr<ServingLoop> serve(BatchExecutor& executor, ServingObserver* observer = nullptr) {
  auto loop = ServingLoop::start(executor, {engine_policy(executor.limits()), 0}, observer);
  REQUIRE(loop.ok());
  return *std::move(loop);
}

// The answer to a request that is alone, and how many tokens of its prompt were found.
struct Asked {
  Tokens answer;
  TokenCount found = 0;
};
Asked ask(ServingLoop& loop, const Tokens& prompt, TokenCount answer) {
  ServedAnswers answers;
  REQUIRE(answers.ask(loop, 0, {prompt, answer}));
  answers.wait_for(1);
  REQUIRE(answers[0].ids == HashingExecutor::answer(prompt, answer));
  return {answers[0].ids, answers[0].ends[0].cached_tokens};
}

// A model of one layer that sees all tokens and one that sees the newest 10.
BatchLimits with_windows(BatchLimits limits) {
  ModelSpec model;
  model.layers = 2;
  model.heads = model.kv_heads = 1;
  model.window = SlidingWindow{};
  model.window->tokens = limits.window = 10;
  model.window->full_every = 2;
  limits.window_blocks = int(window_pool_blocks(model, limits.step_sequences, limits.step_tokens,
                                                limits.block_tokens, limits.checkpoints));
  REQUIRE(limits.window_blocks > 0);
  return limits;
}

}  // namespace

TEST_CASE("A later turn computes no more than what is new, behind a checkpoint",
          "[engine][serving][checkpoints]") {
  // A thought that the next turn leaves out parts both at the end of the prompt.
  for (const int kind : {0, 1, 2, 3}) {
    const bool repeats_answer = kind % 2 == 0;
    CAPTURE(kind);
    HashingExecutor executor(kind < 2 ? kLimits : with_windows(kLimits));
    Computed computed;
    auto loop = serve(executor, &computed);
    std::mt19937 random(3);
    Tokens said = random_tokens(random, 50);
    TokenCount known = 0;  // of the prompt, to the last turn
    for (int turn = 0; turn < 5; ++turn) {
      CAPTURE(turn);
      const TokenCount before = computed.tokens;
      const Asked asked = ask(*loop, said, 20);
      CHECK(asked.found >= known - kBehindCheckpoint);
      CHECK(computed.tokens - before == TokenCount(said.size()) - asked.found + 19);
      known = TokenCount(said.size()) + (repeats_answer ? 20 : 0);
      if (repeats_answer) said = joined(said, asked.answer);
      said = joined(said, random_tokens(random, 15));
    }
    loop->stop();
    CHECK(loop->leaks() == "");
  }
}

TEST_CASE("A prompt that others begin with has a checkpoint once two have parted behind it",
          "[engine][serving][checkpoints]") {
  HashingExecutor executor(kLimits);
  auto loop = serve(executor);
  std::mt19937 random(4);
  const Tokens common = random_tokens(random, 100);
  CHECK(ask(*loop, joined(common, random_tokens(random, 30)), 5).found == 0);
  CHECK(ask(*loop, joined(common, random_tokens(random, 30)), 5).found == 0);
  CHECK(ask(*loop, joined(common, random_tokens(random, 30)), 5).found == 100);
  loop->stop();
  CHECK(loop->leaks() == "");
}

TEST_CASE("The checkpoint that was used longest ago makes room for another",
          "[engine][serving][checkpoints]") {
  BatchLimits limits = kLimits;
  limits.checkpoints = 3;
  HashingExecutor executor(limits);
  auto loop = serve(executor);
  std::mt19937 random(5);
  std::vector<Tokens> prompts;
  for (int i = 0; i < 4; ++i) prompts.push_back(random_tokens(random, 41));
  // Answers of two tokens reach no block's end: a prompt has one checkpoint, at 32 of its tokens.
  for (const int i : {0, 1, 2}) CHECK(ask(*loop, prompts[std::size_t(i)], 2).found == 0);
  CHECK(ask(*loop, prompts[0], 2).found == 32);  // and another one, where all 40 were known
  CHECK(ask(*loop, prompts[2], 2).found == 32);
  CHECK(ask(*loop, prompts[1], 2).found == 0);
  loop->stop();
  CHECK(loop->leaks() == "");
}

TEST_CASE("States are right through preemption, tiers and cancelled requests",
          "[engine][serving][checkpoints]") {
  BatchLimits limits = kLimits;
  limits.blocks = 24;
  for (const int host_blocks : {0, 40, -1}) {
    CAPTURE(host_blocks);
    limits.host_blocks = std::max(0, host_blocks);
    limits.checkpoints = 5;
    if (host_blocks < 0) limits = with_windows(limits);
    HashingExecutor executor(limits);
    auto loop = serve(executor);
    std::mt19937 random(6);
    ServedAnswers answers;
    std::vector<Tokens> prompts;
    std::vector<bool> cancelled;
    constexpr int kRequests = 1500;
    for (int i = 0; i < kRequests; ++i) {
      Tokens prompt;
      if (i > 0 && random() % 4 > 0) {
        prompt = prompts[std::size_t(i) - 1 - random() % std::min(std::size_t(i), std::size_t(6))];
        prompt.resize(std::min<std::size_t>(prompt.size(), 1 + random() % 50));
      }
      prompts.push_back(joined(prompt, random_tokens(random, int(1 + random() % 15))));
      CompletionId id = 0;
      REQUIRE(answers.ask(*loop, i, {prompts.back(), TokenCount(1 + random() % 20)}, &id));
      cancelled.push_back(random() % 8 == 0);
      if (cancelled.back()) loop->cancel(id);
      if (i % 20 == 19) answers.wait_for(std::size_t(i) - 6);
    }
    answers.wait_for(kRequests);
    loop->stop();
    CHECK(loop->leaks() == "");
    CHECK(loop->state().preempted > 0);
    CHECK(loop->state().cached_prompt_tokens > 1000);
    for (int i = 0; i < kRequests; ++i) {
      const auto answer = answers[i];
      REQUIRE(answer.ids ==
              HashingExecutor::answer(prompts[std::size_t(i)], TokenCount(answer.ids.size())));
      if (!cancelled[std::size_t(i)]) REQUIRE(answer.ends.at(0).reason == FinishReason::kLength);
    }
  }
}

TEST_CASE("A copy of a state that fails ends one request at most",
          "[engine][serving][checkpoints]") {
  BatchLimits limits = kLimits;
  limits.blocks = 40;
  std::mt19937 random(7);
  std::vector<Tokens> prompts;
  for (int i = 0; i < 8; ++i)
    prompts.push_back(
        joined(i % 3 == 0 ? Tokens() : prompts[std::size_t(i) - 1], random_tokens(random, 20)));
  int sites = 1;
  for (int site = 0; site <= sites; ++site) {  // site 0: nothing fails
    HashingExecutor executor(limits);
    executor.before_call = [&](int call) {
      if (call == site) throw MachineError("the copy engine is gone");
    };
    auto loop = serve(executor);
    ServedAnswers answers;
    for (std::size_t i = 0; i < prompts.size(); ++i)
      REQUIRE(answers.ask(*loop, int(i), {prompts[i], 9}));
    answers.wait_for(prompts.size());
    loop->stop();
    REQUIRE(loop->leaks() == "");
    int failed = 0;
    for (std::size_t i = 0; i < prompts.size(); ++i) {
      if (answers[int(i)].ends.at(0).reason == FinishReason::kFailed)
        ++failed;
      else
        REQUIRE(answers[int(i)].ids == HashingExecutor::answer(prompts[i], 9));
    }
    CHECK(failed <= (site == 0 ? 0 : 1));
    if (site == 0) sites = executor.calls();
  }
}
