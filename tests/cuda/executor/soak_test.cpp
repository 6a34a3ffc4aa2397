// Many tokens of a split model: memory does not grow, and tokens do not change.
#include <vector>

#include "tests/cuda/executor/placements.hpp"
#include "tests/cuda/executor/whole_models.hpp"
#include "tests/resident_memory.hpp"

using namespace rigcast;
using namespace rigcast::engine;
using namespace rigcast::engine::fixtures;

namespace {

constexpr int kRoundTokens = 500, kRounds = 40, kSettledRounds = 4;

struct Held {
  Bytes vram, ram;
  double resident = 0;  // of the process
};

Held held_by(const Executor& executor) {
  return {executor.gpus().front().needed() - executor.gpus().front().overhead,
          executor.host().needed(), test::resident_memory().value};
}

// A prompt and an answer, from an empty context on.
std::vector<std::int32_t> round_of(Executor& executor) {
  Sampler sampler({});
  executor.truncate(0);
  std::vector<std::int32_t> ids{argmax_token(executor.forward(prompt_of(70, 500), Logits::kLast))};
  while (int(ids.size()) < kRoundTokens) ids.push_back(executor.decode(ids.back(), sampler));
  return ids;
}

void soak(const TinyModel& tiny, const Placement& placement) {
  ExecutorOptions options = shared_by(placement);
  options.kv_block = 16;
  const auto executor = on_gpu(tiny, options);
  const auto want = round_of(*executor);
  Held settled;
  for (int round = 1; round < kRounds; ++round) {
    REQUIRE(round_of(*executor) == want);
    if (round + 1 == kSettledRounds) settled = held_by(*executor);
  }
  const Held end = held_by(*executor);
  CHECK(end.vram == settled.vram);
  CHECK(end.ram == settled.ram);
  // A leak of half a kilobyte per token would be as much.
  constexpr double kKept = 512.0 * kRoundTokens * (kRounds - kSettledRounds);
  CAPTURE(settled.resident, end.resident);
  CHECK(end.resident <= settled.resident + kKept);
}

}  // namespace

TEST_CASE("20,000 tokens of a shared model leave memory and tokens as they were",
          "[cuda][gpu][soak]") {
  const TinyTraits traits{.mix = "Q4_K_M", .layers = 4};
  const TinyModel tiny = make_tiny_model(traits);
  Placement half = with_host_cache(split(traits, 2));
  half.head = half.head_on = 0;
  SECTION("half of the layers and all caches on the host") { soak(tiny, half); }
  SECTION("prompts on the GPU, tokens on the host") {
    soak(tiny, with_host_decode(split(traits, 5)));
  }
}

TEST_CASE("A cache that 2 GiB do not hold leaves and comes back, and memory stays",
          "[cuda][gpu][soak]") {
  const TinyTraits traits{.mix = "Q8_0",
                          .hidden = 512,
                          .heads = 8,
                          .kv_heads = 8,
                          .head_dim = 128,
                          .layers = 32};  // 128 KiB of cache a token, as an 8B model
  constexpr int kTokens = 16'500;
  ExecutorOptions options;
  options.vram_limit = 2_GiB;
  options.kv_eviction = KvEviction{.hot_tokens = 100'000};  // all that there is memory for
  const TinyModel tiny = make_tiny_model(traits);
  const auto executor = on_gpu(tiny, options);
  const auto round = [&] {
    Sampler sampler({});
    executor->truncate(0);
    std::vector<std::int32_t> ids{
        argmax_token(executor->forward(prompt_of(70, 500), Logits::kLast))};
    while (int(ids.size()) < kTokens) {
      ids.push_back(executor->decode(ids.back(), sampler));
      if (ids.size() % 500 == 0) REQUIRE(held_by(*executor).vram <= 2_GiB);
    }
    return ids;
  };
  const auto want = round();
  const Held settled = held_by(*executor);
  CHECK(executor->host().kv > 100_MiB);
  CHECK(round() == want);
  const Held end = held_by(*executor);
  CHECK(end.vram == settled.vram);
  CHECK(end.ram == settled.ram);
  CAPTURE(settled.resident, end.resident);
  CHECK(end.resident <= settled.resident + 64.0 * kTokens);  // bytes kept of every token
}
