// Steps of several sequences some of whose blocks, or all, are in the host's memory: no bit of a
// result differs from that of blocks on the GPU.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "core/model/kv_bytes.hpp"
#include "tests/catch.hpp"
#include "tests/cuda/executor/batches.hpp"
#include "tests/cuda/executor/placements.hpp"

using namespace rigcast;
using namespace rigcast::engine;
using namespace rigcast::engine::fixtures;

namespace {

constexpr TokenCount kBlock = 32;  // of batch_on_gpu()

// All but the first `on_gpu` blocks of the pool are cold.
ExecutorOptions with_cold(ExecutorOptions options, int on_gpu) {
  options.kv_eviction = KvEviction{.hot_tokens = on_gpu * kBlock};
  return options;
}

ExecutorOptions of_types(QuantFormat k, QuantFormat v) {
  ExecutorOptions options;
  options.kv_types = {k, v};
  return options;
}

double layer_bytes(const TinyModel& tiny, KvTypes types) {
  return kv_bytes_per_token(tiny.model.spec, 0, types) * double(kBlock);
}

// Logits of sequences of different lengths whose prompts arrive in chunks, while others decode
// already; then of one alone.
std::vector<float> served(BatchExecutor& executor, std::vector<Known> sequences) {
  std::vector<float> all;
  const auto compute = [&](std::span<const SequenceStep> steps) {
    const auto logits = executor.logits(steps);
    all.insert(all.end(), logits.begin(), logits.end());
  };
  for (int turn = 0; turn < 60; ++turn) {
    std::vector<SequenceStep> steps;
    for (std::size_t s = 0; s < sequences.size(); ++s) {
      Known& own = sequences[s];
      const auto left = TokenCount(own.tokens.size()) - own.cached;
      if (left > 10 && turn >= int(s))  // 10 are decoded
        steps.push_back(own.next(std::min<TokenCount>(left - 10, 23 + 31 * TokenCount(s))));
      else if (left > 0 && turn >= int(s) && (turn + int(s)) % 3 != 0)
        steps.push_back(own.next(1));
    }
    if (!steps.empty()) compute(steps);
  }
  Known alone = sequences.front();
  for (alone.cached -= 5; alone.cached < TokenCount(alone.tokens.size());) {
    const SequenceStep step = alone.next(1);
    compute({&step, 1});
  }
  return all;
}

void check_as_resident(const TinyTraits& traits, const ExecutorOptions& options) {
  const TinyModel tiny = model_of(traits);
  const auto sequences = sequences_of(4, 150, traits.vocabulary);  // blocks 0 to 19
  const auto want = served(*batch_on_gpu(tiny, options), sequences);
  for (const int on_gpu : {0, 7, 19}) {
    INFO(traits.architecture << " " << traits.mix << ", " << on_gpu << " blocks on the GPU");
    const bool equal =
        served(*batch_on_gpu(tiny, with_cold(options, on_gpu), {.blocks = 20}), sequences) == want;
    CHECK(equal);
  }
}

}  // namespace

TEST_CASE("Sequences with cold blocks have the bits of those on the GPU", "[cuda][gpu][batch]") {
  check_as_resident({.mix = "Q4_K_M", .layers = 3}, {});
  check_as_resident({.mix = "F16", .layers = 1}, {});
  check_as_resident({.mix = "F16", .layers = 2, .window = 30}, {});
  check_as_resident({.mix = "Q8_0", .layers = 5, .tied = true, .rope_freqs = true}, {});
  check_as_resident({.architecture = "qwen3", .mix = "Q4_K_M", .layers = 4, .qk_norm = true}, {});
  check_as_resident({.architecture = "qwen2", .mix = "Q4_K_M", .layers = 3, .qkv_bias = true}, {});
  check_as_resident({.mix = "Q4_K_M", .layers = 3, .experts = 8}, {});
  check_as_resident({.mix = "F16", .heads = 2, .kv_heads = 1, .head_dim = 128, .layers = 3}, {});
}

TEST_CASE("Cold blocks have any of the cache's types", "[cuda][gpu][batch]") {
  using enum QuantFormat;
  for (const auto& [k, v] :
       {std::pair(kQ8_0, kQ8_0), {kQ4_0, kQ4_0}, {kQ8_0, kQ4_0}, {kF16, kQ8_0}})
    check_as_resident({.mix = "Q4_K_M", .layers = 3}, of_types(k, v));
}

TEST_CASE("Tables of cold blocks grow past those of steps before", "[cuda][gpu][batch]") {
  const TinyModel tiny = model_of({.mix = "Q4_K_M", .layers = 3});
  const auto sequences = sequences_of(3, 540, 500);  // blocks 0 to 50; tables of 512 tokens first
  const auto want = served(*batch_on_gpu(tiny), sequences);
  for (const int on_gpu : {0, 20})
    CHECK((served(*batch_on_gpu(tiny, with_cold({}, on_gpu)), sequences) == want));
}

TEST_CASE("Sequences share the cold blocks of a prefix", "[cuda][gpu][batch]") {
  const TinyModel tiny = model_of({.mix = "Q8_0", .layers = 3});
  const auto want = logits_over_shared_prefix(*batch_on_gpu(tiny));
  for (const int on_gpu : {0, 2})
    CHECK(logits_over_shared_prefix(*batch_on_gpu(tiny, with_cold({}, on_gpu))) == want);
}

TEST_CASE("Cold blocks that others had before, and steps with and without them, are right",
          "[cuda][gpu][batch]") {
  const TinyModel tiny = model_of({.mix = "Q4_K_M", .layers = 3});
  const auto executor = batch_on_gpu(tiny, with_cold({}, 6), {.blocks = 20});
  const auto check = [&](const std::vector<Known>& sequences) {
    CHECK((served(*executor, sequences) == served(*batch_on_gpu(tiny), sequences)));
  };
  auto sequences = sequences_of(4, 150, 500);
  check(sequences);
  for (int turn = 0; turn < 3; ++turn) {
    for (Known& s : sequences) {
      std::ranges::reverse(s.tokens);
      for (int& block : s.blocks) block = (block * 3 + 7) % 20;
    }
    check(sequences);
    auto resident = sequences_of(2, 90, 500);  // blocks 0 to 5
    check(resident);
  }
}

TEST_CASE("Blocks move between the pool, cold or not, and the host's pool", "[cuda][gpu][batch]") {
  const TinyModel tiny = model_of({.mix = "Q4_K_M", .layers = 2});
  // Blocks 0 to 3 have tokens; 8 to 15 are free.
  for (const int on_gpu : {0, 1, 8, 15}) {
    const auto executor =
        batch_on_gpu(tiny, with_cold({}, on_gpu), {.blocks = 16, .host_blocks = 4});
    MovedSequences moved = moved_to_host_and_back(*executor);
    std::vector<std::byte> bytes(executor->block_bytes());
    const int from[] = {14, 15}, to[] = {moved.freed_block, 9};
    for (int i = 0; i < 2; ++i) {
      executor->read_block(from[i], bytes);
      executor->write_block(to[i], bytes);
    }
    auto& written = moved.sequences;
    written[0].blocks = {moved.freed_block, 9};
    for (Known& s : written) --s.cached;
    const std::vector<SequenceStep> once_more{written[0].next(1), written[1].next(1)};
    CHECK(copy(executor->logits(once_more)) == moved.logits);
  }
}

TEST_CASE("Steps over cold blocks have the bits of those on the GPU wherever layers are",
          "[cuda][gpu][batch][hybrid]") {
  for (const int experts : {0, 8}) {
    const TinyTraits traits{.mix = "Q4_K_M", .layers = 3, .experts = experts};
    auto cases = kinds_of_placement(traits);
    cases.push_back({"a streamed layer", with_streamed(split(traits, 4), {1})});
    const TinyModel tiny = model_of(traits);
    const auto sequences = sequences_of(3, 100, 500);  // blocks 0 to 11
    for (const NamedPlacement& c : cases) {
      INFO(c.name << ", experts " << experts);
      const ExecutorOptions options = shared_by(c.placement);
      const auto want = served(*batch_on_gpu(tiny, options), sequences);
      for (const int on_gpu : {0, 5})
        CHECK((served(*batch_on_gpu(tiny, with_cold(options, on_gpu)), sequences) == want));
    }
  }
}

TEST_CASE("A step copies its cold blocks with tokens, and new tokens back", "[cuda][gpu][batch]") {
  const TinyModel tiny = model_of({.mix = "Q8_0", .layers = 3});
  const auto executor = batch_on_gpu(tiny, with_cold({}, 2), {.blocks = 16});
  Known first{prompt_of(70, 500), {1, 4, 5}, 0}, second{prompt_of(40, 400), {0, 9}, 0};
  const SequenceStep prompts[] = {first.next(66), second.next(32)};
  executor->take_bytes();
  static_cast<void>(executor->logits(prompts));
  const double part = layer_bytes(tiny, {}), token = part / double(kBlock);
  MovedBytes moved = executor->take_bytes();
  CHECK(moved.to_gpu == 0);  // no block had tokens
  CHECK(moved.to_host == 3 * (66 - 32) * token);
  const SequenceStep next[] = {first.next(1), second.next(1)};
  static_cast<void>(executor->logits(next));
  moved = executor->take_bytes();
  CHECK(moved.to_gpu == 3 * 2 * part);  // blocks 4 and 5
  CHECK(moved.to_host == 3 * 2 * token);
}

TEST_CASE("The memory of a pool with cold blocks is the host's", "[cuda][gpu][batch][memory]") {
  const TinyModel tiny = model_of({.mix = "Q4_K_M", .layers = 4});
  const double part = layer_bytes(tiny, {}), block = 4 * part;
  const auto executor = batch_on_gpu(tiny, with_cold({}, 10), {.blocks = 50});
  CHECK(executor->limits().blocks == 50);
  CHECK(executor->host().kv.value == 40 * block);
  const DeviceMemory gpu = executor->gpus().front();
  CHECK(gpu.kv.value >= 11 * block);
  CHECK(gpu.kv.value <= 11 * block + (4 << 20));  // lists, and whole pages of memory
  CHECK(gpu.staging.value >= (2 * 40 + 4) * part);
}

TEST_CASE("As many blocks are on the GPU as a limit of its memory leaves room for",
          "[cuda][gpu][batch][memory]") {
  const TinyModel tiny = model_of({.mix = "Q4_K_M", .layers = 4});
  const double part = layer_bytes(tiny, {}), block = 4 * part;
  constexpr int kBlocks = 24'000;  // of 64 KiB each
  ExecutorOptions options;
  options.vram_limit = 1800_MiB;
  options.kv_eviction = KvEviction{.context = 1000};
  const auto executor = batch_on_gpu(tiny, options, {.blocks = kBlocks});
  const double cold = executor->host().kv.value / block;
  CHECK(cold > 0);
  CHECK(cold < kBlocks);
  CHECK(executor->gpus().front().kv.value >= (kBlocks - cold) * block);
  const Bytes held = executor->gpus().front().needed();
  CHECK(held <= 1800_MiB);
  CHECK(held >= 1100_MiB);  // but for what the driver is left
  const auto sequences = sequences_of(4, 150, 500);
  auto spread = sequences;
  for (Known& s : spread)
    for (int& block_of : s.blocks) block_of = block_of * 1199;  // from the first to the last
  CHECK((served(*executor, spread) == served(*batch_on_gpu(tiny), sequences)));
}

TEST_CASE("Cold blocks of several sequences are refused where they are not executed",
          "[cuda][batch]") {
  const auto model = std::make_shared<const Model>(model_of({.mix = "F16", .layers = 2}).model);
  const auto refused = [&](const ExecutorOptions& options, const BatchOptions& batch,
                           const char* why) {
    const auto made = make_cuda_batch_executor(model, options, batch);
    REQUIRE(!made);
    INFO(made.error().text());
    CHECK(made.error().text().find(why) != std::string::npos);
  };
  ExecutorOptions combined = with_cold({}, 4);
  combined.host_share.reset();
  refused(combined, {.blocks = 8}, "attends to no cold blocks");
  ExecutorOptions quantized = with_cold({}, 4);
  quantized.cold_type = QuantFormat::kQ8_0;
  refused(quantized, {.blocks = 8}, "cache's own type");
  refused(with_cold({}, 4), {}, "--ram-limit");
}
