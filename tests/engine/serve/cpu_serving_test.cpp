// Answers of a serving loop on the CPU's executor, against the scalar F32 reference, which computes
// each request alone.

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <latch>
#include <map>
#include <memory>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "engine/backends/cpu/batch/cpu_batch_executor.hpp"
#include "engine/serve/kv_file.hpp"
#include "engine/serve/serving_loop.hpp"
#include "tests/catch.hpp"
#include "tests/engine/executor_fixture.hpp"
#include "tests/engine/serve/served_answers.hpp"
#include "tests/folder.hpp"

using namespace rigcast;
using namespace rigcast::engine;
using namespace rigcast::engine::fixtures;

namespace {

using Tokens = std::vector<std::int32_t>;

// Throws at one call of those that compute or copy. Steps wait until all requests are asked: what
// is scheduled together must not depend on how fast the client's thread is.
class FailingOnce : public BatchExecutor {
 public:
  FailingOnce(BatchExecutor& executor, int site) : executor_(executor), site_(site) {}
  void begin_steps() { all_asked_.count_down(); }
  std::span<const std::int32_t> step(std::span<const SequenceStep> sequences) override {
    all_asked_.wait();
    begin_call();
    return executor_.step(sequences);
  }
  std::span<const float> logits(std::span<const SequenceStep> sequences) override {
    return executor_.logits(sequences);
  }
  void move_out(std::span<const BlockCopy> copies) override {
    begin_call();
    executor_.move_out(copies);
  }
  void move_in(std::span<const BlockCopy> copies) override {
    begin_call();
    executor_.move_in(copies);
  }
  std::size_t block_bytes() const override { return executor_.block_bytes(); }
  void read_block(int block, std::span<std::byte> to) override { executor_.read_block(block, to); }
  void write_block(int block, std::span<const std::byte> from) override {
    executor_.write_block(block, from);
  }
  BatchLimits limits() const override { return executor_.limits(); }
  int threads() const override { return executor_.threads(); }
  const Model& model() const override { return executor_.model(); }
  MovedBytes take_bytes() override { return executor_.take_bytes(); }
  DeviceMemory host() const override { return executor_.host(); }

 private:
  void begin_call() {
    if (++calls_ == site_) throw ShortOfMemory("no memory is left");
  }
  BatchExecutor& executor_;
  const int site_;
  int calls_ = 0;
  std::latch all_asked_{1};
};

// In standard deviations of the logits, by how much the reference prefers another token to one of
// the answer, at most.
double widest_lost_margin(const TinyModel& tiny, const Tokens& prompt, const Tokens& answer) {
  Tokens all = prompt;
  all.insert(all.end(), answer.begin(), answer.end());
  all.pop_back();  // of the last one the logits are not asked for
  const auto logits = reference_logits(tiny, all);
  double widest = 0;
  for (std::size_t i = 0; i < answer.size(); ++i) {
    const std::vector<float>& row = logits[prompt.size() - 1 + i];
    double mean = 0, square = 0;
    for (const float v : row) mean += v;
    mean /= double(row.size());
    for (const float v : row) square += (v - mean) * (v - mean);
    const double deviation = std::sqrt(square / double(row.size()));
    const float most = *std::ranges::max_element(row);
    widest = std::max(widest, (most - row[std::size_t(answer[i])]) / deviation);
  }
  return widest;
}

// The error of a logit against the reference, squared, over the logits' variance: as the tests of
// the CPU's executor hold it to, with weights and cache in F32.
constexpr double kErrorPower = 1e-9;

}  // namespace

TEST_CASE("the CPU serves every request the answer that it has alone", "[engine][serving]") {
  const TinyTraits traits{.mix = "F32", .layers = 2};
  const TinyModel tiny = model_of(traits);
  const auto model = std::make_shared<const Model>(tiny.model);
  const CpuOptions options{2, {QuantFormat::kF32, QuantFormat::kF32}, 8, 32};
  std::map<std::pair<Tokens, Tokens>, double> margins;  // most answers are those of before
  for (const int site : {0, 1, 5, 23}) {
    CAPTURE(site);
    const BatchLimits limits{
        .block_tokens = 8, .blocks = 14, .host_blocks = 24, .step_tokens = 32, .step_sequences = 6};
    CpuBatchExecutor executor(model, options, limits);
    FailingOnce failing(executor, site);
    auto loop = ServingLoop::start(failing, {engine_policy(limits), 0});
    REQUIRE(loop.ok());
    std::mt19937 random(5);
    ServedAnswers answers;
    std::vector<Tokens> prompts;
    constexpr int kRequests = 16;
    bool all_taken = true;
    for (int i = 0; i < kRequests; ++i) {
      Tokens prompt;
      if (i % 3 == 2) prompt = prompts[std::size_t(i) - 2];  // begins like another
      const int more = int(1 + random() % 30);
      for (int t = 0; t < more; ++t)
        prompt.push_back(std::int32_t(random() % std::size_t(traits.vocabulary)));
      prompts.push_back(prompt);
      CompletionId id = 0;
      all_taken &= answers.ask(**loop, i, {prompt, TokenCount(4 + random() % 20)}, &id);
      if (i % 7 == 3) (*loop)->cancel(id);
    }
    failing.begin_steps();
    REQUIRE(all_taken);
    answers.wait_for(kRequests);
    // Whether a prefix was still kept above depends on measured rates: of these two it is.
    const std::uint64_t found = (*loop)->state().cached_prompt_tokens;
    for (const int n : {kRequests, kRequests + 1}) {
      REQUIRE(answers.ask(**loop, n, {Tokens(20, 3), 4}));
      answers.wait_for(std::size_t(n) + 1);
    }
    (*loop)->stop();
    CHECK((*loop)->leaks() == "");
    CHECK((*loop)->state().preempted > 0);
    CHECK((*loop)->state().cached_prompt_tokens >= found + 16);  // two blocks of 8
    int failed = 0;
    for (int i = 0; i < kRequests; ++i) {
      const auto answer = answers[i];
      REQUIRE(answer.ends.size() == 1);
      if (answer.ends[0].reason == FinishReason::kFailed) {
        ++failed;
        CHECK(answer.ends[0].error.find("no memory is left") != std::string::npos);
      }
      if (answer.ids.empty()) continue;
      CAPTURE(i);
      const auto [known, is_new] = margins.try_emplace({prompts[std::size_t(i)], answer.ids});
      if (is_new) known->second = widest_lost_margin(tiny, known->first.first, answer.ids);
      // Six standard deviations of the error of a difference of two logits.
      CHECK(known->second <= 6 * std::sqrt(2 * kErrorPower));
    }
    CHECK(failed <= (site == 0 ? 0 : 1));
  }
}

TEST_CASE("turns that come back from a file have the answers that they have alone",
          "[engine][serving]") {
  const TinyTraits traits{.mix = "F32", .layers = 2};
  const TinyModel tiny = model_of(traits);
  const CpuOptions options{2, {QuantFormat::kF32, QuantFormat::kF32}, 8, 32};
  const BatchLimits limits{
      .block_tokens = 8, .blocks = 14, .host_blocks = 0, .step_tokens = 32, .step_sequences = 4};
  CpuBatchExecutor executor(std::make_shared<const Model>(tiny.model), options, limits);
  const test::Folder folder;
  const auto file = KvFile::create(folder.path(), 1_MiB, executor.block_bytes());
  REQUIRE(file.ok());
  SchedulerPolicy policy = engine_policy(limits);
  policy.restore = KvRestore::kAlways;
  auto loop = ServingLoop::start(executor, {policy, 0, file->get()});
  REQUIRE(loop.ok());
  std::mt19937 random(5);
  std::vector<Tokens> said(4);
  ServedAnswers answers;
  int asked = 0;
  for (int turn = 0; turn < 3; ++turn)
    for (Tokens& own : said) {
      for (int t = 0; t < 12; ++t)
        own.push_back(std::int32_t(random() % std::size_t(traits.vocabulary)));
      REQUIRE(answers.ask(**loop, asked, {own, 6}));
      answers.wait_for(std::size_t(asked) + 1);
      const auto answer = answers[asked++];
      REQUIRE(answer.ids.size() == 6);
      CHECK(widest_lost_margin(tiny, own, answer.ids) <= 6 * std::sqrt(2 * kErrorPower));
      own.insert(own.end(), answer.ids.begin(), answer.ids.end());
      while ((*loop)->state().completed < std::uint64_t(asked) || (*loop)->state().disk_writes > 0)
        std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
  (*loop)->stop();
  CHECK((*loop)->leaks() == "");
  CHECK((*loop)->state().disk_prompt_tokens >= 8 * 4 * 2);
  CHECK(folder.names().empty());
}
