// Layers with a window whose blocks are a pool of their own: the same bits as where they have each
// block of all layers, through sequences that come and go, and behind a checkpoint.

#include <algorithm>
#include <cstdint>
#include <memory>
#include <random>
#include <span>
#include <vector>

#include "core/scenario/engine_sizes.hpp"
#include "engine/backends/cpu/batch/batch_bytes.hpp"
#include "engine/backends/cpu/batch/make_cpu_batch_executor.hpp"
#include "engine/serve/kv_pool.hpp"
#include "tests/catch.hpp"
#include "tests/engine/executor_fixture.hpp"
#include "tests/engine/window_steps.hpp"

using namespace rigcast;
using namespace rigcast::engine;
using namespace rigcast::engine::fixtures;

namespace {

using Tokens = std::vector<std::int32_t>;

constexpr int kVocabulary = 200;

std::shared_ptr<const Model> windowed() {
  TinyTraits traits{.architecture = "gemma3", .layers = 6};
  traits.hidden = 128;
  traits.head_dim = 32;
  traits.vocabulary = kVocabulary;
  traits.window = 40;
  traits.window_full_every = 6;
  return std::make_shared<const Model>(make_tiny_model(traits).model);
}

constexpr BatchOptions kApart{
    .blocks = 96, .step_tokens = 48, .step_sequences = 3, .checkpoints = 2, .windows_apart = true};

std::unique_ptr<BatchExecutor> executor_of(const std::shared_ptr<const Model>& model,
                                           BatchOptions batch = kApart) {
  ExecutorOptions options;
  options.threads = 2;
  options.kv_block = 8;
  auto made = make_cpu_batch_executor(model, options, batch);
  REQUIRE(made.ok());
  return *std::move(made);
}

Tokens random_tokens(std::mt19937& random, int count) {
  Tokens tokens;
  for (int i = 0; i < count; ++i) tokens.push_back(std::int32_t(random() % kVocabulary));
  return tokens;
}

}  // namespace

TEST_CASE("Windows in a pool of their own change no bit", "[engine][batch][windows]") {
  const auto model = windowed();
  const auto apart = executor_of(model);
  BatchOptions as_others = kApart;
  as_others.windows_apart = false;
  const auto together = executor_of(model, as_others);
  REQUIRE(together->limits().window_blocks == 0);
  KvPool own(apart->limits(), false), common(together->limits(), false);
  std::mt19937 random(3);
  std::vector<Running> sequences(3);
  for (int round = 0; round < 120; ++round) {
    std::vector<TokenCount> counts;
    TokenCount left = 48;
    for (Running& s : sequences) {
      if (s.tokens.empty() || random() % 40 == 0) {  // another one
        own.release(s.apart);
        common.release(s.together);
        s = {random_tokens(random, 240), 0};
      }
      const auto more = TokenCount(random() % 4 == 0 ? 1 + random() % 40 : random() % 2);
      counts.push_back(std::min({more, left, TokenCount(s.tokens.size()) - s.computed}));
      left -= counts.back();
    }
    if (std::ranges::all_of(counts, [](TokenCount n) { return n == 0; })) continue;
    REQUIRE(step(*apart, own, sequences, counts, &Running::apart) ==
            step(*together, common, sequences, counts, &Running::together));
    for (std::size_t i = 0; i < sequences.size(); ++i) sequences[i].computed += counts[i];
    std::vector<const SequenceBlocks*> all;
    for (const Running& s : sequences) all.push_back(&s.apart);
    REQUIRE(own.contradiction(all) == "");
  }
  CHECK(std::ranges::any_of(sequences, [](const Running& s) { return s.computed > 100; }));
}

TEST_CASE("Behind the checkpoint of a window tokens have the bits that they had",
          "[engine][batch][windows][checkpoints]") {
  const auto executor = executor_of(windowed());
  KvPool pool(executor->limits(), true);
  REQUIRE(pool.keeps_states());
  std::mt19937 random(4);
  std::vector<Running> one(1);
  one[0].tokens = random_tokens(random, 200);
  const auto compute = [&](TokenCount count) {
    const auto logits = step(*executor, pool, one, std::vector{count}, &Running::apart);
    one[0].computed += count;
    pool.hold(one[0].apart, std::span(one[0].tokens).first(std::size_t(one[0].computed)));
    return logits;
  };
  compute(48);
  compute(48);
  REQUIRE(pool.take_checkpoint(one[0].apart, false));
  const auto rest = [&] {
    std::vector<std::vector<float>> rows{compute(40)};
    while (one[0].computed < 200) rows.push_back(compute(1));
    return rows;
  };
  const auto want = rest();
  pool.release(one[0].apart);
  // What comes between takes every block of windows that nobody holds.
  one[0] = {random_tokens(random, 240), 0};
  for (int i = 0; i < 5; ++i) compute(48);
  pool.release(one[0].apart);
  std::mt19937 again(4);
  one[0] = {random_tokens(again, 200), 0};
  const KvPool::Found found = pool.find(one[0].tokens);
  REQUIRE(found.tokens() == 96);
  CHECK(found.known_tokens >= 96);
  pool.admit(one[0].apart, found);
  pool.restored(one[0].apart);
  one[0].computed = 96;
  CHECK(rest() == want);
  pool.release(one[0].apart);
  CHECK(pool.contradiction({}) == "");
}

TEST_CASE("A pool of windows takes its own memory, where it is less",
          "[engine][batch][memory][windows]") {
  const auto model = windowed();
  const CpuBlockBytes bytes = cpu_block_bytes(*model, {}, 8);
  CHECK(bytes.window == 5 * bytes.all);  // of six layers one sees all tokens
  const auto apart = executor_of(model);
  // At most 39 tokens lie in five blocks and another; a step's 48 in six; a checkpoint has five.
  CHECK(apart->limits().window_blocks == 6 + 3 * 7 + 2 * 5);
  CHECK(apart->limits().checkpoints == 2);
  CHECK(apart->host().kv.value == 96 * bytes.all + 37 * bytes.window);
  BatchOptions small = kApart;
  small.blocks = 37;
  CHECK(executor_of(model, small)->limits().window_blocks == 0);
  BatchOptions moved = kApart;
  moved.host_blocks = 1;
  CHECK(executor_of(model, moved)->limits().window_blocks == 0);
  // A limit of RAM has room for more blocks.
  ExecutorOptions options;
  options.kv_block = 8;
  options.ram_limit = apart->host().needed() + Bytes{100};
  BatchOptions open = kApart;
  open.blocks.reset();
  const auto made = make_cpu_batch_executor(model, options, open);
  REQUIRE(made.ok());
  CHECK((*made)->limits().blocks == 96);
  CHECK((*made)->limits().window_blocks == 37);
}
