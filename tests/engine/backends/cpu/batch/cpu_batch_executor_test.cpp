// Many sequences in common steps, compared with each sequence alone.
#include "engine/backends/cpu/batch/cpu_batch_executor.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "engine/backends/cpu/cpu_executor.hpp"
#include "tests/catch.hpp"
#include "tests/engine/executor_fixture.hpp"
#include "tests/engine/logits_compare.hpp"

using namespace rigcast;
using namespace rigcast::engine;
using namespace rigcast::engine::fixtures;

namespace {

using Tokens = std::vector<std::int32_t>;
using Logits32 = std::vector<float>;

constexpr BatchLimits kLimits{16, 96, 40, 256, 16};

CpuBatchExecutor executor_of(const TinyModel& tiny, CpuOptions options = {2, KvTypes()},
                             const BatchLimits& limits = kLimits) {
  return CpuBatchExecutor(std::make_shared<const Model>(tiny.model), options, limits);
}

// Every n-th block of the pool, from `first` on: tables of several sequences are interleaved.
std::vector<int> blocks_of(int first, int step = 8, int count = 12) {
  std::vector<int> blocks;
  for (int i = 0; i < count; ++i) blocks.push_back(first + step * i);
  return blocks;
}

struct Sequence {
  Tokens tokens;
  std::vector<int> blocks;
  TokenCount cached = 0;

  SequenceStep next(std::size_t count, Sampler* sampler = nullptr) {
    const SequenceStep step{std::span(tokens).subspan(std::size_t(cached), count), cached, blocks,
                            sampler};
    cached += TokenCount(count);
    return step;
  }
};

Sequence sequence(std::size_t count, std::int32_t salt, int first_block) {
  Tokens tokens = prompt_of(count, 500);
  for (auto& t : tokens) t = (t * 3 + 17 * salt) % 500;
  return {tokens, blocks_of(first_block)};
}

Logits32 row(std::span<const float> logits, std::size_t index, std::size_t width = 500) {
  const auto part = logits.subspan(index * width, width);
  return {part.begin(), part.end()};
}

// Logits after each of the last tokens of `of` (all but its prompt of `prompt`), while `others`
// decode beside it and take part in its prompt's steps.
std::vector<Logits32> decoded(CpuBatchExecutor& executor, Sequence of, std::size_t prompt,
                              std::vector<Sequence> others, std::size_t place = 0) {
  std::vector<Logits32> out;
  std::size_t at = 0;
  const auto step = [&](std::size_t own, std::size_t each) {
    std::vector<SequenceStep> steps;
    for (Sequence& other : others) steps.push_back(other.next(each));
    at = std::min(place, steps.size());
    steps.insert(steps.begin() + std::ptrdiff_t(at), of.next(own));
    return row(executor.logits(steps), at);
  };
  for (std::size_t done = 0; done < prompt; done += prompt / 2)
    out.push_back(step(prompt / 2, 20));  // chunks beside chunks
  while (of.cached < TokenCount(of.tokens.size())) out.push_back(step(1, 1));
  return out;
}

std::vector<Sequence> neighbours(std::size_t count, std::int32_t salt) {
  std::vector<Sequence> out;
  for (std::size_t i = 0; i < count; ++i)
    out.push_back(sequence(60, salt + std::int32_t(i), int(i) + 1));
  return out;
}

struct Kind {
  TinyTraits traits;
  std::vector<std::string> mixes;
};

std::vector<Kind> kinds() {
  return {{{}, kMixes},
          {{.mix = "Q4_0", .tied = true, .rope_freqs = true},
           {"Q4_1", "Q5_0", "IQ4_XS", "IQ2_M", "IQ1_M"}},
          {{.heads = 2, .kv_heads = 1, .head_dim = 128}, {"Q4_K_M", "F16"}},
          {{.window = 40, .window_full_every = 2}, {"Q4_K_M", "F16"}},
          {{.architecture = "qwen2", .qkv_bias = true}, {"Q8_0", "F16"}},
          {{.architecture = "qwen3", .qk_norm = true}, {"Q6_K", "BF16"}},
          {{.experts = 8}, {"Q4_K_M", "F16", "MXFP4_MOE", "IQ2_XXS", "IQ3_M"}},
          {{.architecture = "qwen3moe", .qk_norm = true, .experts = 16, .experts_used = 4},
           {"Q5_K_M", "F32"}}};
}

template <class Use>
void for_models(const Use& use) {
  for (Kind kind : kinds())
    for (const std::string& mix : kind.mixes) {
      kind.traits.mix = mix;
      kind.traits.layers = 2;
      INFO(kind.traits.architecture << " " << mix << " experts " << kind.traits.experts);
      use(model_of(kind.traits), kind.traits);
    }
}

}  // namespace

TEST_CASE("Neighbours change no bit of a sequence, whatever they hold and wherever it is",
          "[engine][batch]") {
  for_models([](const TinyModel& tiny, const TinyTraits&) {
    // Rows apart when decoding, and tiles.
    for (const std::size_t others : {3u, 11u}) {
      const Sequence own = sequence(70, 0, 0);
      const auto run = [&](std::int32_t salt, std::size_t place, int threads) {
        // Others' blocks are strided so that all find room.
        CpuBatchExecutor executor = executor_of(tiny, {threads, KvTypes()}, {16, 200, 0, 300, 16});
        auto around = neighbours(others, salt);
        for (std::size_t i = 0; i < others; ++i) around[i].blocks = blocks_of(int(i) + 1, 12);
        Sequence of = own;
        of.blocks = blocks_of(0, 12);
        return decoded(executor, of, 60, around, place);
      };
      const auto want = run(1, 0, 1);
      CHECK((run(50, 0, 2) == want));
      CHECK((run(90, others, 3) == want));
      CHECK((run(7, 2, 2) == want));
    }
  });
}

TEST_CASE("A sequence's logits are those of the executor of one", "[engine][batch]") {
  for_models([](const TinyModel& tiny, const TinyTraits& traits) {
    for (const std::size_t others : {0u, 1u, 7u, 9u}) {
      const Sequence own = sequence(80, 0, 0);
      CpuBatchExecutor executor = executor_of(tiny, {2, KvTypes()}, {16, 200, 0, 300, 16});
      auto around = neighbours(others, 5);
      for (std::size_t i = 0; i < others; ++i) around[i].blocks = blocks_of(int(i) + 1, 12);
      Sequence of = own;
      of.blocks = blocks_of(0, 12);
      const auto got = decoded(executor, of, 60, around);

      CpuExecutor alone(std::make_shared<const Model>(tiny.model), {2, KvTypes(), 16, 30});
      std::vector<Logits32> want;
      const auto forward = [&](std::size_t first, std::size_t count) {
        const auto logits =
            alone.forward(std::span(own.tokens).subspan(first, count), Logits::kLast);
        want.emplace_back(logits.begin(), logits.end());
      };
      forward(0, 30);
      forward(30, 30);
      for (std::size_t i = 60; i < 80; ++i) forward(i, 1);

      REQUIRE(got.size() == want.size());
      Logits32 all;
      for (const Logits32& logits : got) all.insert(all.end(), logits.begin(), logits.end());
      const Agreement a = compare(all, want);
      const bool floats = is_float(traits.mix);
      const double bound = floats ? 1e-9 : rounding_bound(traits);
      CAPTURE(others, a.mean_kl, a.nmse, a.widest_lost_margin);
      CHECK(a.mean_kl <= (floats ? 1e-8 : 5e-3));
      CHECK(a.nmse <= bound);
      CHECK(a.widest_lost_margin <= 6 * std::sqrt(2 * bound));
      // Steps of one token take the same way, after prompts whose experts did not.
      if (others == 0 && traits.experts == 0)
        CHECK(std::equal(got.begin() + 2, got.end(), want.begin() + 2));
    }
  });
}

TEST_CASE("Sequences share blocks of a prefix", "[engine][batch]") {
  for (const char* mix : {"Q4_K_M", "F16"}) {
    const TinyModel tiny = model_of({.mix = mix, .layers = 2});
    CpuBatchExecutor executor = executor_of(tiny);
    const Tokens prefix = prompt_of(48, 500);  // three whole blocks
    Sequence a{prefix, blocks_of(0)}, b{prefix, blocks_of(1)};
    for (int i = 0; i < 30; ++i) {
      a.tokens.push_back(7 * i % 500);
      b.tokens.push_back(11 * i % 500);
    }
    const auto ends = [&] {
      std::vector<Logits32> out;
      const SequenceStep chunks[] = {a.next(20), b.next(20)};
      executor.logits(chunks);
      for (int i = 0; i < 10; ++i) {
        const SequenceStep tokens[] = {a.next(1), b.next(1)};
        const auto logits = executor.logits(tokens);
        out.push_back(row(logits, 0));
        out.push_back(row(logits, 1));
      }
      return out;
    };
    const SequenceStep prompts[] = {a.next(48), b.next(48)};
    executor.logits(prompts);
    const auto want = ends();
    a.cached = b.cached = 48;
    b.blocks = blocks_of(2);
    std::copy_n(a.blocks.begin(), 3, b.blocks.begin());
    CHECK((ends() == want));
  }
}

TEST_CASE("Blocks may be anywhere, of any size, and of any type", "[engine][batch]") {
  using enum QuantFormat;
  const TinyModel tiny = model_of({.mix = "Q8_0", .layers = 2, .window = 50});
  for (const KvTypes types : {KvTypes{kF32, kF32}, KvTypes{kF16, kF16}, KvTypes{kQ8_0, kQ8_0},
                              KvTypes{kQ4_0, kQ4_0}, KvTypes{kQ8_0, kF16}}) {
    const auto run = [&](TokenCount block, std::vector<int> own, std::vector<int> other) {
      CpuBatchExecutor executor = executor_of(tiny, {2, types}, {block, 400, 0, 256, 4});
      Sequence a{prompt_of(160, 500), own}, b{prompt_of(160, 400), other};
      std::vector<Logits32> out;
      const auto both = [&](std::size_t of_a, std::size_t of_b) {
        const SequenceStep steps[] = {a.next(of_a), b.next(of_b)};
        const auto logits = executor.logits(steps);
        out.push_back(row(logits, 0));
        out.push_back(row(logits, 1));
      };
      both(150, 10);
      both(1, 100);
      for (int i = 0; i < 9; ++i) both(1, 1);
      return out;
    };
    const auto want = run(16, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, {10, 11, 12, 13, 14, 15, 16, 17});
    CHECK((run(16, {9, 3, 22, 1, 7, 0, 15, 4, 2, 20}, {8, 23, 5, 6, 10, 21, 11, 12}) == want));
    CHECK((run(100, {3, 1}, {2, 0}) == want));
    CHECK((run(128, {1, 3}, {2}) == want));
    // Runs of fewer tokens than kernels take at once, at the end of a partition, too.
    CHECK((run(5, blocks_of(1, 2, 40), blocks_of(0, 2, 40)) == want));
    CHECK((run(1, blocks_of(199, -1, 160), blocks_of(200, 1, 160)) == want));
  }
}

TEST_CASE("Blocks that were moved out and in again hold what they held", "[engine][batch]") {
  const TinyModel tiny = model_of({.mix = "Q4_K_M", .layers = 3});
  for (const KvTypes types : {KvTypes(), KvTypes{QuantFormat::kQ8_0, QuantFormat::kQ4_0}}) {
    CpuBatchExecutor executor = executor_of(tiny, {2, types});
    Sequence a = sequence(60, 1, 0);
    const SequenceStep prompt[] = {a.next(50)};
    executor.logits(prompt);
    executor.take_bytes();
    const auto rest = [&] {
      std::vector<Logits32> out;
      a.cached = 50;
      while (a.cached < 60) {
        const SequenceStep one[] = {a.next(1)};
        out.push_back(row(executor.logits(one), 0));
      }
      return out;
    };
    const auto want = rest();
    a.cached = 50;
    const BlockCopy out[] = {
        {a.blocks[0], 39}, {a.blocks[1], 0}, {a.blocks[2], 7}, {a.blocks[3], 8}};
    executor.take_bytes();
    executor.move_out(out);
    const KvCache sizes(tiny.model.spec, types, 16);
    CHECK(executor.take_bytes().kv_written == double(4 * sizes.block_bytes()));
    Sequence other = sequence(64, 9, 0);  // overwrites them all
    const SequenceStep others[] = {other.next(64)};
    executor.logits(others);
    CHECK((rest() != want));
    const BlockCopy in[] = {{39, 90}, {0, 85}, {7, 91}, {8, 3}};
    executor.move_in(in);
    const int places[] = {90, 85, 91, 3};
    std::ranges::copy(places, a.blocks.begin());
    CHECK((rest() == want));
  }
}

TEST_CASE("A sequence whose logits are no numbers is told, and the others go on",
          "[engine][batch]") {
  for (const int experts : {0, 8})
    for (const std::size_t others : {3u, 11u}) {
      TinyModel tiny = model_of({.mix = "F32", .layers = 2, .experts = experts});
      TinyTensor& embedding = *tiny.find("token_embd.weight");
      constexpr std::int32_t kPoison = 123;
      const float nan = std::numeric_limits<float>::quiet_NaN();
      std::memcpy(embedding.bytes.data() + kPoison * 256 * sizeof(float), &nan, sizeof nan);
      const auto run = [&](bool poisoned) {
        CpuBatchExecutor executor = executor_of(tiny, {2, KvTypes()}, {16, 200, 0, 300, 16});
        auto all = neighbours(others, 3);
        std::vector<Sampler> samplers;
        for (std::size_t i = 0; i < others; ++i) {
          all[i].blocks = blocks_of(int(i), 12);
          for (auto& t : all[i].tokens) t = t == kPoison ? 5 : t;
          samplers.emplace_back(Sampling{.temperature = 1, .seed = i});
        }
        if (poisoned) all[1].tokens[4] = kPoison;
        std::vector<std::vector<std::int32_t>> ids;
        for (int i = 0; i < 6; ++i) {
          std::vector<SequenceStep> steps;
          for (std::size_t s = 0; s < others; ++s)
            steps.push_back(all[s].next(i == 0 ? 10 : 1, s == 2 ? nullptr : &samplers[s]));
          const auto chosen = executor.step(steps);
          ids.emplace_back(chosen.begin(), chosen.end());
        }
        if (poisoned) CHECK(samplers[1].drawn() == 0);
        CHECK(samplers[0].drawn() == 6);
        return ids;
      };
      const auto want = run(false);
      auto got = run(true);
      for (std::size_t i = 0; i < got.size(); ++i) {
        CHECK(got[i][1] == BatchExecutor::kNotNumbers);
        CHECK(got[i][2] == BatchExecutor::kNoToken);
        got[i][1] = want[i][1];
      }
      CHECK(got == want);
    }
}

TEST_CASE("A step that was interrupted may be repeated", "[engine][batch]") {
  const TinyModel tiny = model_of({.mix = "Q4_K_M", .layers = 4, .experts = 8});
  std::atomic<bool> asked{false};
  CpuOptions options{2, KvTypes()};
  options.stop = StopFlag(asked);
  CpuBatchExecutor executor = executor_of(tiny, options), other = executor_of(tiny);
  Sequence a = sequence(180, 1, 0), b = sequence(60, 2, 1);
  Sampler sampler({.temperature = 1, .seed = 4}), of_other = sampler;
  const SequenceStep first[] = {a.next(30), b.next(59)};
  executor.step(first);
  other.step(first);
  const SequenceStep a_next = a.next(150), b_next = b.next(1);
  const auto steps = [&](Sampler& s) {
    return std::vector<SequenceStep>{{a_next.tokens, a_next.cached, a_next.blocks, &s},
                                     {b_next.tokens, b_next.cached, b_next.blocks, nullptr}};
  };
  int ended_early = 0;
  for (int round = 0; round < 20; ++round) {
    std::thread asks([&] {
      std::this_thread::sleep_for(std::chrono::microseconds(200 * round));
      asked = true;
    });
    Sampler tried = sampler;
    try {
      executor.step(steps(tried));
    } catch (const Interrupted&) {
      ++ended_early;
      CHECK(tried.drawn() == 0);
    }
    asks.join();
    asked = false;
  }
  CHECK(ended_early > 0);
  CHECK(std::ranges::equal(executor.step(steps(sampler)), other.step(steps(of_other))));
  CHECK((row(executor.logits(steps(sampler)), 0) == row(other.logits(steps(sampler)), 0)));
}

TEST_CASE("Memory that is missing is told before a step, and nothing is held",
          "[engine][batch][memory]") {
  const TinyModel tiny = model_of({.mix = "F16", .layers = 2});
  CpuOptions options{2, KvTypes()};
  options.ram = Ram(200_MiB);
  const Bytes all = executor_of(tiny, options).host().needed();
  CHECK(options.ram.held().value == 0);
  options.ram = Ram(all);
  {
    CpuBatchExecutor executor = executor_of(tiny, options);
    CHECK(executor.host().needed() == all);
    Sequence a = sequence(256, 1, 0);
    a.blocks = blocks_of(0, 1, 16);
    const SequenceStep longest[] = {a.next(256)};
    executor.logits(longest);
    CHECK(executor.host().needed() == all);  // charged when it was made
  }
  options.ram = Ram(all - Bytes{1});
  CHECK_THROWS_AS(executor_of(tiny, options), ShortOfMemory);
  CHECK(options.ram.held().value == 0);

  int left = 1;  // the pool's; the host's pool finds no memory
  options.ram = Ram(200_MiB);
  options.kv_memory = [&](std::size_t bytes) {
    if (left-- == 0) throw std::bad_alloc();
    return make_large_pages(bytes);
  };
  CHECK_THROWS_AS(executor_of(tiny, options), std::bad_alloc);
  CHECK(options.ram.held().value == 0);
}

TEST_CASE("A step's bytes are its weights once and every sequence's cache", "[engine][batch]") {
  const TinyModel tiny = model_of({.mix = "Q8_0", .layers = 2});
  CpuBatchExecutor executor = executor_of(tiny);
  CpuExecutor alone(std::make_shared<const Model>(tiny.model), {2, KvTypes()});
  alone.fill(64);
  alone.take_bytes();
  Sampler sampler{Sampling{}};
  alone.decode(3, sampler);
  const MovedBytes one = alone.take_bytes();
  std::vector<Sequence> all = neighbours(4, 1);
  std::vector<SequenceStep> steps;
  for (Sequence& s : all) {
    executor.fill(s.blocks, 64);
    s.tokens.resize(65);
    s.cached = 64;
    steps.push_back(s.next(1));
  }
  executor.logits(steps);
  const MovedBytes four = executor.take_bytes();
  CHECK(four.weights == one.weights);
  CHECK(four.kv_read == 4 * one.kv_read);
  CHECK(four.kv_written == 4 * one.kv_written);
}
