// The prompts that a GPU's batch computes before its first request fit whatever it has room for.
#include <algorithm>
#include <vector>

#include "engine/backends/cuda/batch/warm_up.hpp"
#include "tests/catch.hpp"
#include "tests/engine/serve/hashing_executor.hpp"

using namespace rigcast;
using namespace rigcast::engine;

namespace {

// Notes how many tokens steps have; what it inherits checks blocks and limits.
class NotingExecutor : public fixtures::HashingExecutor {
 public:
  using HashingExecutor::HashingExecutor;
  std::vector<std::size_t> tokens{};

  std::span<const std::int32_t> step(std::span<const SequenceStep> sequences) override {
    for (const SequenceStep& s : sequences) {
      CHECK(std::ranges::all_of(s.blocks, [&](int b) { return b < limits().blocks; }));
      tokens.push_back(s.tokens.size());
    }
    return HashingExecutor::step(sequences);
  }
};

}  // namespace

TEST_CASE("Prompts of all widths are computed before the first request", "[engine][cuda]") {
  NotingExecutor executor(
      {.block_tokens = 32, .blocks = 64, .step_tokens = 512, .step_sequences = 8});
  cuda::warm_up_prompts(executor);
  REQUIRE(executor.tokens.size() == 14);
  CHECK(executor.tokens.front() == 65);
  CHECK(executor.tokens.back() == 481);
  for (std::size_t i = 1; i < executor.tokens.size(); ++i)
    CHECK(executor.tokens[i] == executor.tokens[i - 1] + 32);
}

TEST_CASE("A small pool, or short steps, leave out the longer ones", "[engine][cuda]") {
  NotingExecutor small({.block_tokens = 16, .blocks = 7, .step_tokens = 512, .step_sequences = 2});
  cuda::warm_up_prompts(small);  // 112 tokens
  CHECK(small.tokens == std::vector<std::size_t>{65, 97});
  NotingExecutor shorter(
      {.block_tokens = 16, .blocks = 99, .step_tokens = 64, .step_sequences = 2});
  cuda::warm_up_prompts(shorter);
  CHECK(shorter.tokens.empty());
}
