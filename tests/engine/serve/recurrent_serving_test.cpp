// Models with recurrent layers, served: states go with their sequences, through preemption too, and
// blocks of others are taken for a prefix only as far as a checkpoint of their state reaches.

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <memory>
#include <random>
#include <span>
#include <vector>

#include "engine/backends/cpu/batch/cpu_batch_executor.hpp"
#include "engine/serve/serving_loop.hpp"
#include "engine/serve/state_slots.hpp"
#include "tests/catch.hpp"
#include "tests/engine/executor_fixture.hpp"
#include "tests/engine/serve/served_answers.hpp"

using namespace rigcast;
using namespace rigcast::engine;
using namespace rigcast::engine::fixtures;

namespace {

using Tokens = std::vector<std::int32_t>;

// In standard deviations of the logits, by how much the reference prefers another token to one of
// the answer, at most.
double lost_margin(const Model& model, const Tokens& prompt, const Tokens& answer) {
  Tokens all = prompt;
  all.insert(all.end(), answer.begin(), answer.end() - 1);
  const auto logits = ref::forward(model, all);
  double widest = 0;
  for (std::size_t i = 0; i < answer.size(); ++i) {
    const std::vector<float>& row = logits[prompt.size() - 1 + i];
    double mean = 0, square = 0;
    for (const float v : row) mean += v;
    mean /= double(row.size());
    for (const float v : row) square += (v - mean) * (v - mean);
    const float best = *std::ranges::max_element(row);
    widest = std::max(widest, double(best - row[std::size_t(answer[i])]) /
                                  std::sqrt(square / double(row.size())));
  }
  return widest;
}

constexpr std::array kRecurrent{"qwen35", "lfm2", "granitehybrid"};

TinyModel recurrent_model(const char* architecture) {
  TinyTraits traits{.architecture = architecture, .layers = 4};
  traits.hidden = 128;
  traits.head_dim = 32;
  traits.vocabulary = 200;
  return make_tiny_model(traits);
}

}  // namespace

TEST_CASE("recurrent models are served the answers that requests have alone", "[engine][serving]") {
  for (const char* architecture : kRecurrent) {
    const TinyModel tiny = recurrent_model(architecture);
    const BatchLimits limits{
        .block_tokens = 8, .blocks = 12, .host_blocks = 0, .step_tokens = 24, .step_sequences = 4};
    CpuBatchExecutor executor(std::make_shared<const Model>(tiny.model),
                              {2, {QuantFormat::kF32, QuantFormat::kF32}, 8, 32}, limits);
    auto loop = ServingLoop::start(executor, {engine_policy(limits), 0});
    REQUIRE(loop.ok());
    std::mt19937 random(7);
    ServedAnswers answers;
    std::vector<Tokens> prompts;
    constexpr int kRequests = 12;
    for (int i = 0; i < kRequests; ++i) {
      Tokens prompt = i % 3 == 2 ? prompts[std::size_t(i) - 1] : Tokens();
      for (int more = 5 + int(random() % 20); more > 0; --more)
        prompt.push_back(std::int32_t(random() % 200));
      prompts.push_back(prompt);
      REQUIRE(answers.ask(**loop, i, {prompt, TokenCount(10 + random() % 20)}));
    }
    answers.wait_for(kRequests);
    (*loop)->stop();
    CAPTURE(architecture);
    CHECK((*loop)->leaks() == "");
    CHECK((*loop)->state().cached_prompt_tokens == 0);
    for (int i = 0; i < kRequests; ++i) {
      CAPTURE(i);
      REQUIRE(answers[i].ids.size() >= 10);
      // Six standard deviations of the error of a difference of two logits.
      CHECK(lost_margin(tiny.model, prompts[std::size_t(i)], answers[i].ids) <=
            6 * std::sqrt(2 * 1e-9));
    }
  }
}

TEST_CASE("Turns of recurrent models go on from a checkpoint, to the answers that they have alone",
          "[engine][serving][checkpoints]") {
  for (const char* architecture : kRecurrent) {
    CAPTURE(architecture);
    const TinyModel tiny = recurrent_model(architecture);
    const BatchLimits limits{.block_tokens = 8,
                             .blocks = 64,
                             .host_blocks = 0,
                             .step_tokens = 24,
                             .step_sequences = 4,
                             .checkpoints = 6};
    CpuBatchExecutor executor(std::make_shared<const Model>(tiny.model),
                              {2, {QuantFormat::kF32, QuantFormat::kF32}, 8, 32}, limits);
    auto loop = ServingLoop::start(executor, {engine_policy(limits), 0});
    REQUIRE(loop.ok());
    std::mt19937 random(8);
    ServedAnswers answers;
    Tokens said;
    for (int turn = 0; turn < 4; ++turn) {
      const TokenCount before = TokenCount(said.size());
      for (int i = 0; i < 21; ++i) said.push_back(std::int32_t(random() % 200));
      REQUIRE(answers.ask(**loop, turn, {said, 12}));
      answers.wait_for(std::size_t(turn) + 1);
      const auto answer = answers[turn];
      REQUIRE(answer.ids.size() == 12);
      // A block that the last answer has not filled, and its last token, are computed anew.
      CHECK(answer.ends.at(0).cached_tokens >= std::max<TokenCount>(0, before - 8));
      // Six standard deviations of the error of a difference of two logits.
      CHECK(lost_margin(tiny.model, said, answer.ids) <= 6 * std::sqrt(2 * 1e-9));
      said.insert(said.end(), answer.ids.begin(), answer.ids.end());
    }
    (*loop)->stop();
    CHECK((*loop)->leaks() == "");
  }
}

TEST_CASE("A copied state gives the bits of its own, in the same steps",
          "[engine][batch][checkpoints]") {
  for (const char* architecture : kRecurrent) {
    CAPTURE(architecture);
    const TinyModel tiny = recurrent_model(architecture);
    const BatchLimits limits{
        .block_tokens = 8, .blocks = 16, .step_tokens = 24, .step_sequences = 2, .checkpoints = 1};
    CpuBatchExecutor executor(std::make_shared<const Model>(tiny.model),
                              {2, {QuantFormat::kF16, QuantFormat::kF16}, 8, 32}, limits);
    std::mt19937 random(9);
    Tokens tokens;
    for (int i = 0; i < 50; ++i) tokens.push_back(std::int32_t(random() % 200));
    const std::vector<int> blocks = {0, 1, 2, 3, 4, 5, 6}, others = {9, 10, 11};
    const auto step = [&](TokenCount first, TokenCount count, int state) {
      const auto part = std::span(tokens).subspan(std::size_t(first), std::size_t(count));
      const SequenceStep s{part, first, blocks, nullptr, state};
      const auto logits = executor.logits({&s, 1});
      return std::vector<float>(logits.begin(), logits.end());
    };
    step(0, 20, 0);
    executor.copy_state(0, 2);
    const auto behind = step(20, 20, 0), after = step(40, 1, 0);
    const SequenceStep other{std::span(tokens).first(20), 0, others, nullptr, 1};
    executor.logits({&other, 1});
    executor.copy_state(2, 1);  // where another sequence was
    CHECK(step(20, 20, 1) == behind);
    CHECK(step(40, 1, 1) == after);
  }
}

TEST_CASE("States are given one by one, and again when they are free", "[engine][serving]") {
  StateSlots slots(2);
  int first = -1, second = -1, third = -1;
  slots.take(first);
  slots.take(second);
  slots.take(first);  // has one
  CHECK(first == 0);
  CHECK(second == 1);
  slots.release(first);
  slots.release(first);
  CHECK(first == -1);
  slots.take(third);
  CHECK(third == 0);
}
