// Layers with a window whose blocks are a pool of their own on a GPU: the same bits as where they
// have each block of all layers, and behind a checkpoint; and states that are copied.

#include <algorithm>
#include <cstdint>
#include <random>
#include <span>
#include <vector>

#include "engine/serve/kv_pool.hpp"
#include "tests/catch.hpp"
#include "tests/cuda/executor/batches.hpp"
#include "tests/cuda/executor/placements.hpp"
#include "tests/engine/window_steps.hpp"

using namespace rigcast;
using namespace rigcast::engine;
using namespace rigcast::engine::fixtures;

namespace {

using Tokens = std::vector<std::int32_t>;

const TinyTraits kWindowed{
    .architecture = "gemma3", .mix = "F16", .layers = 6, .window = 40, .window_full_every = 6};

constexpr BatchOptions kApart{
    .blocks = 64, .step_tokens = 48, .step_sequences = 3, .checkpoints = 2, .windows_apart = true};

}  // namespace

TEST_CASE("Windows in a pool of their own change no bit on a GPU", "[cuda][gpu][batch][windows]") {
  const TinyModel tiny = model_of(kWindowed);
  for (const bool graphs : {true, false}) {
    ExecutorOptions options;
    options.graphs = graphs;
    const auto apart = batch_on_gpu(tiny, options, kApart);
    BatchOptions as_others = kApart;
    as_others.windows_apart = false;
    const auto together = batch_on_gpu(tiny, options, as_others);
    REQUIRE(together->limits().window_blocks == 0);
    // At most 39 tokens lie in two blocks of 32 and two more; a step's 48 in two.
    REQUIRE(apart->limits().window_blocks == 2 + 3 * 4 + 2 * 2);
    CHECK(apart->gpus().front().kv < together->gpus().front().kv);
    apart->warm_up();
    KvPool own(apart->limits(), false), common(together->limits(), false);
    std::mt19937 random(3);
    std::vector<Running> sequences(3);
    for (int round = 0; round < 150; ++round) {
      std::vector<TokenCount> counts;
      TokenCount left = 48;
      for (Running& s : sequences) {
        if (s.tokens.empty() || random() % 40 == 0) {  // another one
          own.release(s.apart);
          common.release(s.together);
          s = {prompt_of(400 + random() % 50, kWindowed.vocabulary), 0};
        }
        const auto more = TokenCount(random() % 4 == 0 ? 1 + random() % 40 : random() % 2);
        counts.push_back(std::min({more, left, TokenCount(s.tokens.size()) - s.computed}));
        left -= counts.back();
      }
      if (std::ranges::all_of(counts, [](TokenCount n) { return n == 0; })) continue;
      REQUIRE(step(*apart, own, sequences, counts, &Running::apart) ==
              step(*together, common, sequences, counts, &Running::together));
      for (std::size_t i = 0; i < sequences.size(); ++i) sequences[i].computed += counts[i];
    }
    CHECK(std::ranges::any_of(sequences, [](const Running& s) { return s.computed > 100; }));
  }
}

TEST_CASE("Behind the checkpoint of a window a GPU's tokens have the bits that they had",
          "[cuda][gpu][batch][windows][checkpoints]") {
  const auto executor = batch_on_gpu(model_of(kWindowed), {}, kApart);
  KvPool pool(executor->limits(), true);
  REQUIRE(pool.keeps_states());
  const Tokens tokens = prompt_of(200, kWindowed.vocabulary);
  std::vector<Running> one(1);
  one[0].tokens = tokens;
  const auto compute = [&](TokenCount count) {
    const auto logits = step(*executor, pool, one, std::vector{count}, &Running::apart);
    one[0].computed += count;
    pool.hold(one[0].apart, std::span(one[0].tokens).first(std::size_t(one[0].computed)));
    return logits;
  };
  const auto rest = [&] {
    std::vector<std::vector<float>> rows{compute(40)};
    while (one[0].computed < 200) rows.push_back(compute(1));
    return rows;
  };
  compute(48);
  compute(48);
  REQUIRE(pool.take_checkpoint(one[0].apart, false));
  const auto want = rest();
  pool.release(one[0].apart);
  // What comes between takes every block of windows that nobody holds.
  one[0] = {prompt_of(600, 31), 0};
  for (int i = 0; i < 12; ++i) compute(48);
  pool.release(one[0].apart);
  one[0] = {tokens, 0};
  const KvPool::Found found = pool.find(tokens);
  REQUIRE(found.tokens() == 96);
  pool.admit(one[0].apart, found);
  pool.restored(one[0].apart);
  one[0].computed = 96;
  CHECK(rest() == want);
}

TEST_CASE("A state that a GPU copied gives the bits of its own, in the same steps",
          "[cuda][gpu][batch][recurrent][checkpoints]") {
  for (const char* architecture : {"lfm2", "qwen35", "granitehybrid"})
    for (const bool host : {false, true}) {
      INFO(architecture << (host ? ", layers on the host" : ""));
      const TinyTraits t{.architecture = architecture, .mix = "F16", .layers = 4};
      ExecutorOptions options = host ? shared_by(split(t, t.layers / 2)) : ExecutorOptions();
      BatchOptions pool{.step_tokens = 64, .step_sequences = 2, .checkpoints = 1};
      const auto executor = batch_on_gpu(model_of(t), options, pool);
      REQUIRE(executor->limits().checkpoints == 1);
      const Tokens tokens = prompt_of(90, t.vocabulary), others = prompt_of(40, 31);
      const std::vector<int> blocks = {0, 1, 2}, of_others = {5, 6};
      const auto step = [&](TokenCount first, TokenCount count, int state) {
        const SequenceStep s{std::span(tokens).subspan(std::size_t(first), std::size_t(count)),
                             first, blocks, nullptr, state};
        const auto logits = executor->logits({&s, 1});
        return std::vector<float>(logits.begin(), logits.end());
      };
      step(0, 40, 0);
      executor->copy_state(0, 2);
      const auto behind = step(40, 30, 0), after = step(70, 1, 0);
      const SequenceStep other{others, 0, of_others, nullptr, 1};
      executor->logits({&other, 1});
      executor->copy_state(2, 1);  // where another sequence was
      CHECK(step(40, 30, 1) == behind);
      CHECK(step(70, 1, 1) == after);
    }
}
