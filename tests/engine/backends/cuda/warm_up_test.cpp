// The steps that a GPU's batch computes before its first request fit whatever it has room for.
#include <algorithm>
#include <set>
#include <tuple>
#include <vector>

#include "core/scenario/batch_limits.hpp"
#include "engine/backends/cuda/batch/step_rows.hpp"
#include "engine/backends/cuda/batch/warm_up.hpp"
#include "tests/catch.hpp"
#include "tests/engine/serve/hashing_executor.hpp"

using namespace rigcast;
using namespace rigcast::engine;

namespace {

// Notes what steps are made of; what it inherits checks blocks and limits.
class NotingExecutor : public fixtures::HashingExecutor {
 public:
  using HashingExecutor::HashingExecutor;
  std::vector<std::size_t> prompts{};  // tokens of steps with one sequence of several
  std::set<std::tuple<int, TokenCount, bool>> decoded{};  // padded rows and context, drawn
  int mixed = 0;

  std::span<const std::int32_t> step(std::span<const SequenceStep> sequences) override {
    std::set<int> written;
    for (const SequenceStep& s : sequences) {
      CHECK(std::ranges::all_of(s.blocks, [&](int b) { return b < limits().blocks; }));
      CHECK(written.insert(s.blocks[std::size_t(s.cached / limits().block_tokens)]).second);
    }
    const RowOrder order = order_of(sequences, limits());
    if (order.chunks.empty())
      decoded.emplace(padded_rows(int(sequences.size())), padded_context(order.longest),
                      sequences.front().sampler != nullptr);
    else if (sequences.size() == 1)
      prompts.push_back(sequences.front().tokens.size());
    else
      ++mixed;
    return HashingExecutor::step(sequences);
  }
};

}  // namespace

TEST_CASE("Prompts of all widths are computed before the first request", "[engine][cuda]") {
  NotingExecutor executor(
      {.block_tokens = 32, .blocks = 64, .step_tokens = 512, .step_sequences = 8});
  cuda::warm_up_prompts(executor);
  CHECK(executor.mixed == 1);
  CHECK(executor.prompts.front() == 2);
  CHECK(executor.prompts.back() == 481);
  for (std::size_t i = 1; i < executor.prompts.size(); ++i) {
    const std::size_t before = executor.prompts[i - 1], tokens = executor.prompts[i];
    CHECK(tokens - before <= (tokens <= 8 ? 1 : tokens <= std::size_t(kMaxSmallBatch) ? 8 : 32));
  }
}

TEST_CASE("A small pool, or short steps, leave out the longer prompts", "[engine][cuda]") {
  NotingExecutor small({.block_tokens = 16, .blocks = 7, .step_tokens = 512, .step_sequences = 2});
  cuda::warm_up_prompts(small);  // 112 tokens
  CHECK(small.prompts.back() == 97);
  NotingExecutor shorter(
      {.block_tokens = 16, .blocks = 99, .step_tokens = 64, .step_sequences = 2});
  cuda::warm_up_prompts(shorter);
  CHECK(shorter.prompts.back() == 64);
  NotingExecutor one({.block_tokens = 16, .blocks = 1, .step_tokens = 1, .step_sequences = 1});
  cuda::warm_up_prompts(one);
  CHECK(one.prompts.empty());
}

TEST_CASE("Every shape of a decoding step is computed before the first request", "[engine][cuda]") {
  NotingExecutor executor(
      {.block_tokens = 32, .blocks = 256, .step_tokens = 512, .step_sequences = 70});
  cuda::warm_up_decode(executor);
  for (int rows = 1; rows <= 70; ++rows)
    for (const TokenCount context : {1, 512, 513, 1100, 2048})
      for (const bool drawn : {false, true}) {
        CAPTURE(rows, context, drawn);
        CHECK(executor.decoded.contains({padded_rows(rows), padded_context(context), drawn}));
      }
}

TEST_CASE("A small pool leaves out longer contexts and more rows", "[engine][cuda]") {
  NotingExecutor small({.block_tokens = 32,
                        .blocks = 40,
                        .step_tokens = 512,
                        .step_sequences = 16,
                        .cold_blocks = 4});
  cuda::warm_up_decode(small);
  CHECK(small.decoded.contains({16, 512, true}));
  CHECK(small.decoded.contains({padded_rows(5), 1024, true}));  // 31 blocks are shared, of 36
  CHECK_FALSE(small.decoded.contains({12, 1024, true}));
  CHECK_FALSE(small.decoded.contains({1, 2048, true}));
}
