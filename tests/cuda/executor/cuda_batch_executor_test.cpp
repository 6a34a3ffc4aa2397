// Steps of several sequences on the GPU: results are those of each sequence alone, and no bit
// depends on the neighbours.
#include <algorithm>
#include <stdexcept>

#include "engine/backends/cuda/batch/step_rows.hpp"
#include "tests/catch.hpp"
#include "tests/cuda/executor/batches.hpp"

using namespace rigcast;
using namespace rigcast::engine;
using namespace rigcast::engine::fixtures;

namespace {

void check_against_reference(TinyTraits traits, const std::vector<std::string>& mixes) {
  traits.layers = 2;
  for (const std::string& mix : mixes) {
    traits.mix = mix;
    check_batch_against_reference(traits, {{}});
  }
}

}  // namespace

TEST_CASE("Sequences of a batch have the reference's logits", "[cuda][gpu][batch]") {
  check_against_reference({}, kMixes);
  check_against_reference({}, {"Q4_1", "Q5_0", "Q5_1", "Q3_K_M", "Q2_K", "IQ4_NL", "IQ4_XS"});
  check_against_reference({}, {"IQ1_S", "IQ1_M", "IQ2_XXS", "IQ2_S", "IQ2_M", "IQ3_XXS", "IQ3_M"});
  check_against_reference({.heads = 2, .kv_heads = 1, .head_dim = 128}, {"F16", "Q4_K_M"});
  check_against_reference({.tied = true, .rope_freqs = true}, {"F16", "Q8_0", "Q4_K_M"});
  check_against_reference({.window = 30}, {"F16", "Q4_K_M"});
  check_against_reference({.experts = 8}, kMixes);
  check_against_reference(
      {.architecture = "qwen3moe", .qk_norm = true, .experts = 16, .experts_used = 4}, kMixes);
  check_against_reference({.experts = 8}, {"MXFP4_MOE"});
  check_against_reference({.architecture = "qwen2", .qkv_bias = true}, kMixes);
  check_against_reference({.architecture = "qwen3", .qk_norm = true}, kMixes);
}

TEST_CASE("Graphs of a batch give the bits of its kernels one by one", "[cuda][gpu][batch]") {
  for (const char* mix : {"Q4_K_M", "F16"})
    for (const int experts : {0, 8}) {
      const TinyModel tiny = model_of({.mix = mix, .layers = 3, .experts = experts});
      const auto sequences = sequences_of(6, 50, 500);
      const auto graphs = decoded_together(*batch_on_gpu(tiny), sequences, 20);
      ExecutorOptions options;
      options.graphs = false;
      CHECK(graphs == decoded_together(*batch_on_gpu(tiny, options), sequences, 20));
    }
}

TEST_CASE("Graphs of a batch are right where contexts outgrow the tables of those before",
          "[cuda][gpu][batch]") {
  // So many rows that a context of 512 tokens has as few splits as one of 1,024: but for the
  // distance between tables, the steps' kernels are alike.
  constexpr int kRows = 72, kPrefix = 480, kBlock = 32;
  const TinyModel tiny = model_of({.mix = "Q4_K_M", .layers = 2});
  const auto prefix = prompt_of(kPrefix, 500);
  const auto decoded = [&](bool graphs) {
    ExecutorOptions options;
    options.graphs = graphs;
    const auto executor = batch_on_gpu(tiny, options, {.blocks = 256, .step_sequences = kRows});
    std::vector<Known> all(kRows);
    for (int s = 0; s < kRows; ++s) {
      Known& own = all[std::size_t(s)];
      own.tokens = prefix;
      for (int t = 0; t < 40; ++t) own.tokens.push_back((7 * s + 3 * t + 1) % 500);
      for (int b = 0; b < kPrefix / kBlock; ++b) own.blocks.push_back(b);
      own.blocks.insert(own.blocks.end(), {100 + s, 100 + kRows + s});
      if (s > 0) own.cached = kPrefix;  // the first one's
      const SequenceStep prompt = own.next(kPrefix + 30 - own.cached);
      static_cast<void>(executor->logits({&prompt, 1}));
    }
    std::vector<float> logits;
    for (int step = 0; step < 6; ++step) {  // tokens 510 to 515
      std::vector<SequenceStep> steps;
      for (Known& s : all) steps.push_back(s.next(1));
      const auto rows = executor->logits(steps);
      logits.insert(logits.end(), rows.begin(), rows.end());
    }
    return logits;
  };
  CHECK(decoded(true) == decoded(false));
}

TEST_CASE("No bit of a sequence depends on its neighbours", "[cuda][gpu][batch]") {
  for (const char* mix : {"Q4_K_M", "F16"})
    for (const int experts : {0, 8})
      for (const int count : {2, 5, 16}) {
        const TinyModel tiny = model_of({.mix = mix, .layers = 2, .experts = experts});
        const auto first = sequences_of(count, 60, 500);
        auto second = first;
        for (std::size_t s = 1; s < second.size(); ++s)
          for (auto& token : second[s].tokens) token = (token * 31 + 7) % 500;
        const auto a = decoded_together(*batch_on_gpu(tiny), first, 20);
        const auto b = decoded_together(*batch_on_gpu(tiny), second, 20);
        INFO(mix << " experts " << experts << " sequences " << count);
        CHECK(a[0] == b[0]);
        CHECK(a[1] != b[1]);
      }
}

TEST_CASE("A single sequence of a batch has the bits of the executor for one",
          "[cuda][gpu][batch]") {
  const TinyModel tiny = model_of({.mix = "Q4_K_M", .layers = 3});
  const auto tokens = prompt_of(70, 500);
  ExecutorOptions options;
  options.kv_block = 32;
  const auto alone = on_gpu(tiny, options);
  const auto batch = batch_on_gpu(tiny);
  Known sequence{tokens, {5, 3, 9}, 0};
  for (const std::int32_t& t : tokens) {
    const auto want = copy(alone->forward({&t, 1}, Logits::kLast));
    const SequenceStep step = sequence.next(1);
    REQUIRE(copy(batch->logits({&step, 1})) == want);
  }
}

TEST_CASE("Sequences share the blocks of a prefix", "[cuda][gpu][batch]") {
  const TinyModel tiny = model_of({.mix = "Q8_0", .layers = 2});
  static_cast<void>(logits_over_shared_prefix(*batch_on_gpu(tiny)));
}

TEST_CASE("Blocks that were moved to the host and back give the same bits", "[cuda][gpu][batch]") {
  const TinyModel tiny = model_of({.mix = "Q4_K_M", .layers = 2});
  for (const QuantFormat kv : {QuantFormat::kF16, QuantFormat::kQ8_0, QuantFormat::kQ4_0}) {
    ExecutorOptions options;
    options.kv_types = {kv, kv};
    static_cast<void>(
        moved_to_host_and_back(*batch_on_gpu(tiny, options, {.blocks = 16, .host_blocks = 4})));
  }
}

TEST_CASE("Ids of a batch are the samplers' own choices", "[cuda][gpu][batch]") {
  const TinyModel tiny = model_of({.mix = "Q4_K_M", .layers = 2});
  const auto executor = batch_on_gpu(tiny);
  auto sequences = sequences_of(4, 40, 500);
  const Sampling how[] = {{}, {0.8f, 40, 0.95f, 7}, {1.0f, 0, 1.0f, 8}, {0.5f, 5, 0.9f, 9}};
  std::vector<Sampler> samplers(std::begin(how), std::end(how)), checked = samplers;
  for (int step = 0; step < 20; ++step) {
    std::vector<SequenceStep> steps;
    for (std::size_t s = 0; s < sequences.size(); ++s) {
      steps.push_back(sequences[s].next(step == 0 && s == 3 ? 20 : 1));
      steps.back().sampler = s == 2 && step < 3 ? nullptr : &samplers[s];
    }
    const auto logits = copy(executor->logits(steps));  // computes the same tokens once more
    const auto ids = executor->step(steps);
    for (std::size_t s = 0; s < steps.size(); ++s) {
      const std::span<const float> row(logits.data() + s * 500, 500);
      CHECK(ids[s] == (steps[s].sampler ? checked[s].next(row) : -1));
    }
  }
}

TEST_CASE("Steps that do not fit are refused", "[batch]") {
  const BatchLimits limits{32, 8, 0, 16, 2};
  const std::vector<std::int32_t> tokens(17, 1);
  const std::vector<int> blocks{0, 7}, outside{0, 8};
  const auto step = [&](std::size_t count, TokenCount cached, std::span<const int> table) {
    return SequenceStep{std::span(tokens).first(count), cached, table};
  };
  const auto refused = [&](std::vector<SequenceStep> steps) {
    CHECK_THROWS_AS(order_of(steps, limits), std::invalid_argument);
  };
  refused({});
  refused({step(1, 0, blocks), step(1, 0, blocks), step(1, 0, blocks)});
  refused({step(0, 0, blocks)});
  refused({step(17, 0, blocks)});
  refused({step(1, 64, blocks)});
  refused({step(1, 0, outside)});
  refused({step(1, -1, blocks)});
  BatchLimits apart = limits;
  apart.window_blocks = 4;
  const std::vector<int> windows{3, 0}, too_few{3}, not_there{4, 0};
  const auto with_windows = [&](std::span<const int> of_windows) {
    SequenceStep s = step(4, 28, blocks);
    s.window_blocks = of_windows;
    return std::vector{s};
  };
  CHECK_NOTHROW(order_of(with_windows(windows), apart));
  CHECK_THROWS_AS(order_of(with_windows(too_few), apart), std::invalid_argument);
  CHECK_THROWS_AS(order_of(with_windows(not_there), apart), std::invalid_argument);
  const std::vector<int> many(std::size_t(kMaxContext / 32 + 1), 7);
  refused({step(1, kMaxContext, many)});
  const std::vector<SequenceStep> longest{step(1, kMaxContext - 1, many)};
  CHECK(order_of(longest, limits).longest == kMaxContext);
  const std::vector<SequenceStep> fitting{step(4, 28, blocks), step(1, 63, blocks)};
  const RowOrder order = order_of(fitting, limits);
  CHECK(order.singles == std::vector{1});
  CHECK(order.chunks == std::vector{0});
  CHECK(order.tokens == 5);
  CHECK(order.longest == 64);
  CHECK(order.longest_table == 2);
}
