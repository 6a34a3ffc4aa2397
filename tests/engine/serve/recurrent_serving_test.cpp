// Models with recurrent layers, served: states go with their sequences, through preemption too, and
// no blocks of others are taken for a prefix.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <random>
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

}  // namespace

TEST_CASE("recurrent models are served the answers that requests have alone", "[engine][serving]") {
  for (const char* architecture : {"qwen35", "lfm2", "granitehybrid"}) {
    TinyTraits traits{.architecture = architecture, .layers = 4};
    traits.hidden = 128;
    traits.head_dim = 32;
    traits.vocabulary = 200;
    const TinyModel tiny = make_tiny_model(traits);
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
