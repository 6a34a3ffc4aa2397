// Steps of several sequences on the GPU: results are those of each sequence alone, and no bit
// depends on the neighbours.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "engine/backends/cuda/batch/step_rows.hpp"
#include "engine/backends/cuda/make_cuda_executor.hpp"
#include "tests/catch.hpp"
#include "tests/cuda/executor/placements.hpp"
#include "tests/cuda/executor/whole_models.hpp"
#include "tests/engine/executor_fixture.hpp"

using namespace rigcast;
using namespace rigcast::engine;
using namespace rigcast::engine::fixtures;

namespace {

std::unique_ptr<BatchExecutor> batch_on_gpu(const TinyModel& tiny, ExecutorOptions options = {},
                                            BatchOptions pool = {}) {
  if (!pool.blocks) pool.blocks = 64;
  options.kv_block = 32;
  auto made = make_cuda_batch_executor(std::make_shared<const Model>(tiny.model), options, pool);
  if (!made) FAIL(made.error().text());
  return *std::move(made);
}

// A sequence whose tokens are known, and the blocks that it has.
struct Known {
  std::vector<std::int32_t> tokens;
  std::vector<int> blocks;
  TokenCount cached = 0;

  SequenceStep next(TokenCount count) {
    const SequenceStep step{std::span(tokens).subspan(std::size_t(cached), std::size_t(count)),
                            cached, blocks};
    cached += count;
    return step;
  }
};

// Sequences of `length` tokens, with blocks of 32 tokens spread over the pool.
std::vector<Known> sequences_of(int count, TokenCount length, std::int64_t vocabulary) {
  std::vector<Known> all(static_cast<std::size_t>(count));
  const int blocks = int((length + 31) / 32);
  for (int s = 0; s < count; ++s) {
    all[std::size_t(s)].tokens = prompt_of(std::size_t(length + s), vocabulary);
    std::reverse(all[std::size_t(s)].tokens.begin(), all[std::size_t(s)].tokens.end());
    all[std::size_t(s)].tokens.resize(std::size_t(length));
    for (int b = 0; b < blocks; ++b)
      all[std::size_t(s)].blocks.push_back((b * count + (count - 1 - s)) % (blocks * count));
  }
  return all;
}

// All logits of sequences that begin with chunks of different lengths, and decode together then.
std::vector<std::vector<float>> decoded_together(BatchExecutor& executor,
                                                 std::vector<Known> sequences, TokenCount begin) {
  const auto width = std::size_t(executor.model().spec.vocabulary);
  std::vector<std::vector<float>> logits(sequences.size());
  std::vector<SequenceStep> steps;
  for (std::size_t i = 0; i < sequences.size(); ++i)
    steps.push_back(sequences[i].next(begin + TokenCount(i)));
  const TokenCount length = TokenCount(sequences.front().tokens.size());
  while (!steps.empty()) {
    const auto rows = executor.logits(steps);
    for (std::size_t i = 0; i < steps.size(); ++i)
      logits[i].insert(logits[i].end(), rows.begin() + std::ptrdiff_t(i * width),
                       rows.begin() + std::ptrdiff_t((i + 1) * width));
    steps.clear();
    for (Known& s : sequences)
      if (s.cached < length) steps.push_back(s.next(1));
    if (steps.size() < sequences.size()) break;
  }
  return logits;
}

double bound_of(const TinyTraits& t, const std::string& mix) {
  return half_bound(t) + (is_float(mix) ? 0 : rounding_bound(t));
}

void check_against_reference(TinyTraits traits, const std::vector<std::string>& mixes,
                             ExecutorOptions options = {}) {
  traits.layers = 2;
  for (const std::string& mix : mixes) {
    traits.mix = mix;
    const TinyModel tiny = model_of(traits);
    const auto executor = batch_on_gpu(tiny, options);
    const auto sequences = sequences_of(5, 60, traits.vocabulary);
    const auto logits = decoded_together(*executor, sequences, 20);
    for (const std::size_t s : {0u, 3u}) {  // the scalar reference takes most of the time
      auto want = reference_logits(tiny, sequences[s].tokens);
      want.erase(want.begin(), want.begin() + 20 + std::ptrdiff_t(s) - 1);
      want.resize(logits[s].size() / std::size_t(traits.vocabulary));
      const Agreement a = compare(logits[s], want);
      const double bound = bound_of(traits, mix);
      INFO(traits.architecture << " " << mix << " sequence " << s);
      CAPTURE(a.mean_kl, a.nmse, a.top1, a.widest_lost_margin, bound);
      CHECK(a.mean_kl <= (is_float(mix) ? 1e-3 : 5e-3));
      CHECK(a.nmse <= bound);
      CHECK(a.widest_lost_margin <= 6 * std::sqrt(2 * bound));
    }
  }
}

std::vector<float> copy(std::span<const float> values) { return {values.begin(), values.end()}; }

}  // namespace

TEST_CASE("Sequences of a batch have the reference's logits", "[cuda][gpu][batch]") {
  check_against_reference({}, kMixes);
  check_against_reference({}, {"Q4_1", "Q5_0", "Q5_1", "Q3_K_M", "Q2_K", "IQ4_NL", "IQ4_XS"});
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

TEST_CASE("Sequences of a batch whose experts the host computes have the reference's logits",
          "[cuda][gpu][batch]") {
  const TinyTraits traits{.layers = 2, .experts = 8};
  check_against_reference(traits, {"F16", "Q4_K_M"},
                          shared_by(with_host_experts(split(traits, 3), 2)));
  check_against_reference(traits, {"Q4_K_M"}, shared_by(with_host_experts(split(traits, 3), 1)));
}

TEST_CASE("A batch is refused where the host computes whole layers, or keeps the cache",
          "[cuda][gpu][batch]") {
  const TinyTraits traits{.mix = "Q4_K_M", .layers = 3};
  const TinyModel tiny = model_of(traits);
  const auto model = std::make_shared<const Model>(tiny.model);
  for (const Placement& placement :
       {split(traits, 2), split(traits, 3), with_host_cache(split(traits, 4)),
        with_host_decode(split(traits, 4))}) {
    const auto made = make_cuda_batch_executor(model, shared_by(placement), {.blocks = 8});
    REQUIRE(!made);
    CHECK(made.error().text().find("several sequences") != std::string::npos);
  }
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
  const auto executor = batch_on_gpu(tiny);
  Known first{prompt_of(70, 500), {1, 2, 3}, 0};
  Known other = first;
  other.blocks = {1, 2, 7};
  other.cached = 64;
  const SequenceStep prompt = first.next(64);
  static_cast<void>(executor->logits({&prompt, 1}));
  const SequenceStep both[] = {first.next(1), other.next(1)};
  const auto logits = copy(executor->logits(both));
  CHECK(std::equal(logits.begin(), logits.begin() + 500, logits.begin() + 500));
}

TEST_CASE("Blocks that were moved to the host and back give the same bits", "[cuda][gpu][batch]") {
  const TinyModel tiny = model_of({.mix = "Q4_K_M", .layers = 2});
  for (const QuantFormat kv : {QuantFormat::kF16, QuantFormat::kQ8_0, QuantFormat::kQ4_0}) {
    ExecutorOptions options;
    options.kv_types = {kv, kv};
    const auto executor = batch_on_gpu(tiny, options, {.blocks = 16, .host_blocks = 4});
    auto sequences = sequences_of(2, 64, 500);
    std::vector<SequenceStep> prompts{sequences[0].next(40), sequences[1].next(40)};
    static_cast<void>(executor->logits(prompts));
    auto moved = sequences;
    const std::vector<SequenceStep> next{sequences[0].next(1), sequences[1].next(1)};
    const auto want = copy(executor->logits(next));
    const int a = sequences[0].blocks[0], b = sequences[0].blocks[1];
    const BlockCopy out[] = {{a, 2}, {b, 0}}, back[] = {{2, 14}, {0, 15}};
    executor->move_out(out);
    executor->move_in(back);
    moved[0].blocks = {14, 15};
    const std::vector<SequenceStep> again{moved[0].next(1), moved[1].next(1)};
    CHECK(copy(executor->logits(again)) == want);
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
