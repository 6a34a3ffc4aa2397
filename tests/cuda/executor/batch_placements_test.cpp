// Steps of several sequences where the host has parts of the model: results are those of each
// sequence alone, and no bit depends on the neighbours.
#include <algorithm>
#include <atomic>
#include <memory>
#include <stdexcept>

#include "core/model/kv_bytes.hpp"
#include "engine/backends/cpu/batch/make_cpu_batch_executor.hpp"
#include "engine/placement/host_placement.hpp"
#include "tests/catch.hpp"
#include "tests/cuda/executor/batches.hpp"
#include "tests/cuda/executor/placements.hpp"

using namespace rigcast;
using namespace rigcast::engine;
using namespace rigcast::engine::fixtures;

namespace {

constexpr TokenCount kBlock = 32;  // of batch_on_gpu()

// Those of one sequence, and layers that are copied for every step.
std::vector<NamedPlacement> cases_of(const TinyTraits& t) {
  std::vector<NamedPlacement> cases = kinds_of_placement(t);
  const Placement all = split(t, t.layers + 1);
  cases.push_back({"the outer layers streamed", with_streamed(all, {0, 2})});
  cases.push_back({"a streamed layer beside one of the host",
                   with_streamed(split(t, t.layers - 1), {t.layers - 1})});
  if (t.experts > 0)
    cases.push_back({"streamed but for experts", with_host_experts(with_streamed(all, {0, 1}), 1)});
  return cases;
}

std::vector<ExecutorOptions> ways_of(const TinyTraits& t) {
  std::vector<ExecutorOptions> ways;
  for (const NamedPlacement& c : cases_of(t)) ways.push_back(shared_by(c.placement));
  return ways;
}

void check(TinyTraits traits, const std::vector<std::string>& mixes) {
  traits.layers = 3;
  for (const std::string& mix : mixes) {
    traits.mix = mix;
    check_batch_against_reference(traits, ways_of(traits));
  }
}

std::unique_ptr<BatchExecutor> batch_on_cpu(const TinyModel& tiny) {
  ExecutorOptions options;
  options.kv_block = kBlock;
  options.threads = 2;
  auto made = make_cpu_batch_executor(std::make_shared<const Model>(tiny.model), options,
                                      BatchOptions{.blocks = 64});
  if (!made) FAIL(made.error().text());
  return *std::move(made);
}

// Bytes of a block of so many layers' keys and values.
double block_bytes(const TinyModel& tiny, KvTypes types, int layers) {
  double bytes = 0;
  for (int layer = 0; layer < layers; ++layer)
    bytes += kv_bytes_per_token(tiny.model.spec, layer, types);
  return bytes * double(kBlock);
}

int layers_cached_on_host(const Placement& p) {
  return int(std::ranges::count_if(p.layers, [](const LayerPlacement& l) {
    return l.decode_on == kHost || l.decode_cache_on == kHost;
  }));
}

}  // namespace

TEST_CASE("Sequences have the reference's logits wherever layers, caches and experts are",
          "[cuda][gpu][batch][hybrid]") {
  check({}, {"F32", "F16", "Q8_0", "Q4_K_M"});
  check({.architecture = "qwen3", .qk_norm = true}, {"F16", "Q6_K"});
  check({.architecture = "qwen2", .qkv_bias = true}, {"Q4_K_M"});
  check({.tied = true, .rope_freqs = true}, {"F16", "Q4_K_M"});
  check({.heads = 2, .kv_heads = 1, .head_dim = 128}, {"Q5_K_M"});
  check({.window = 30}, {"F16", "Q4_K_M"});
  check({.experts = 8}, {"F16", "Q4_K_M", "MXFP4_MOE"});
  check({.architecture = "qwen3moe", .qk_norm = true, .experts = 16, .experts_used = 4}, {"Q8_0"});
}

TEST_CASE("No bit of a sequence depends on its neighbours wherever layers are",
          "[cuda][gpu][batch][hybrid]") {
  for (const char* mix : {"Q4_K_M", "F16"})
    for (const int experts : {0, 8}) {
      const TinyTraits traits{.mix = mix, .layers = 3, .experts = experts};
      const TinyModel tiny = model_of(traits);
      for (const NamedPlacement& c : cases_of(traits))
        for (const int count : {2, 5, 16}) {
          const auto first = sequences_of(count, 60, 500);
          auto second = first;
          for (std::size_t s = 1; s < second.size(); ++s)
            for (auto& token : second[s].tokens) token = (token * 31 + 7) % 500;
          const ExecutorOptions options = shared_by(c.placement);
          const auto a = decoded_together(*batch_on_gpu(tiny, options), first, 20);
          const auto b = decoded_together(*batch_on_gpu(tiny, options), second, 20);
          INFO(mix << " experts " << experts << ", " << c.name << ", sequences " << count);
          CHECK(a[0] == b[0]);
          CHECK(a[1] != b[1]);
        }
    }
}

TEST_CASE("A batch that the host computes alone has the bits of the CPU's batch",
          "[cuda][gpu][batch][hybrid]") {
  for (const char* mix : {"Q4_K_M", "F16"})
    for (const int experts : {0, 8}) {
      const TinyTraits traits{.mix = mix, .layers = 3, .experts = experts};
      const TinyModel tiny = model_of(traits);
      for (const int count : {1, 5, 12}) {
        const auto sequences = sequences_of(count, 60, 500);
        INFO(mix << " experts " << experts << " sequences " << count);
        CHECK(decoded_together(*batch_on_gpu(tiny, shared_by(split(traits, 0))), sequences, 20) ==
              decoded_together(*batch_on_cpu(tiny), sequences, 20));
      }
    }
}

TEST_CASE("Sequences share the blocks of a prefix wherever layers are",
          "[cuda][gpu][batch][hybrid]") {
  const TinyTraits traits{.mix = "Q8_0", .layers = 3, .experts = 8};
  const TinyModel tiny = model_of(traits);
  for (const NamedPlacement& c : cases_of(traits)) {
    INFO(c.name);
    static_cast<void>(logits_over_shared_prefix(*batch_on_gpu(tiny, shared_by(c.placement))));
  }
}

TEST_CASE("Blocks that were moved out and in again hold every layer wherever it is",
          "[cuda][gpu][batch][hybrid]") {
  const TinyTraits traits{.mix = "Q4_K_M", .layers = 3};
  const TinyModel tiny = model_of(traits);
  for (const NamedPlacement& c : cases_of(traits))
    for (const QuantFormat kv : {QuantFormat::kF16, QuantFormat::kQ8_0, QuantFormat::kQ4_0}) {
      INFO(c.name);
      ExecutorOptions options = shared_by(c.placement);
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
      executor->take_bytes();
      executor->move_out(out);
      executor->move_in(back);
      const MovedBytes bytes = executor->take_bytes();
      const int on_host = layers_cached_on_host(c.placement);
      const double of_host = 2 * block_bytes(tiny, options.kv_types, on_host),
                   of_gpu = 2 * block_bytes(tiny, options.kv_types, traits.layers - on_host);
      CHECK(bytes.to_host == of_gpu);
      CHECK(bytes.to_gpu == of_gpu);
      CHECK(bytes.kv_read == 2 * of_host);
      CHECK(bytes.kv_written == 2 * of_host);
      CHECK(bytes.on_host == 4 * of_host);
      Known overwriting = sequences[0];
      overwriting.cached = 0;
      for (auto& token : overwriting.tokens) token = (token * 3 + 1) % 500;
      const SequenceStep over = overwriting.next(64);
      static_cast<void>(executor->logits({&over, 1}));
      moved[0].blocks = {14, 15};
      const std::vector<SequenceStep> again{moved[0].next(1), moved[1].next(1)};
      CHECK(copy(executor->logits(again)) == want);
    }
}

TEST_CASE("A step's bytes are the same wherever layers are", "[cuda][gpu][batch][hybrid]") {
  const TinyTraits traits{.mix = "Q8_0", .layers = 3};
  const TinyModel tiny = model_of(traits);
  const auto moved_by = [&](const ExecutorOptions& options) {
    const auto executor = batch_on_gpu(tiny, options);
    auto sequences = sequences_of(3, 60, 500);
    std::vector<SequenceStep> prompts, next;
    for (Known& s : sequences) prompts.push_back(s.next(40));
    static_cast<void>(executor->logits(prompts));
    executor->take_bytes();
    for (Known& s : sequences) next.push_back(s.next(1));
    static_cast<void>(executor->logits(next));
    return executor->take_bytes();
  };
  const MovedBytes want = moved_by({});
  CHECK(want.on_host == 0);
  CHECK(want.to_gpu == 0);
  for (const NamedPlacement& c : cases_of(traits)) {
    INFO(c.name);
    const MovedBytes got = moved_by(shared_by(c.placement));
    CHECK(got.weights == Approx(want.weights).epsilon(1e-9));
    CHECK(got.kv_read == Approx(want.kv_read).epsilon(1e-9));
    CHECK(got.kv_written == Approx(want.kv_written).epsilon(1e-9));
    const bool elsewhere = HostPlacement(tiny.model.spec, c.placement).any();
    CHECK((got.to_gpu + got.to_host > 0) == elsewhere);
  }
  const MovedBytes all = moved_by(shared_by(split(traits, 0)));
  CHECK(all.on_host == all.total());
  // One hidden state of each sequence goes each way for the layers, and one more to the head.
  const double hidden = 3 * 256 * sizeof(float);
  CHECK(all.to_gpu == 2 * hidden);   // of the embedding, and of the layers
  CHECK(all.to_host == 2 * hidden);  // for the layers, and for the head
}

TEST_CASE("Ids are the samplers' own choices where the head is on the host",
          "[cuda][gpu][batch][hybrid]") {
  const TinyTraits traits{.mix = "Q4_K_M", .layers = 3};
  const TinyModel tiny = model_of(traits);
  const auto executor = batch_on_gpu(tiny, shared_by(split(traits, 2)));
  auto sequences = sequences_of(4, 40, 500);
  const Sampling how[] = {{}, {0.8f, 40, 0.95f, 7}, {1.0f, 0, 1.0f, 8}, {0.5f, 5, 0.9f, 9}};
  std::vector<Sampler> samplers(std::begin(how), std::end(how)), checked = samplers;
  for (int step = 0; step < 12; ++step) {
    std::vector<SequenceStep> steps;
    for (std::size_t s = 0; s < sequences.size(); ++s) {
      steps.push_back(sequences[s].next(step == 0 && s == 3 ? 20 : 1));
      steps.back().sampler = s == 2 && step < 3 ? nullptr : &samplers[s];
    }
    const auto logits = copy(executor->logits(steps));  // computes the same tokens once more
    const auto ids = executor->step(steps);
    for (std::size_t s = 0; s < steps.size(); ++s) {
      const std::span<const float> row(logits.data() + s * 500, 500);
      CHECK(ids[s] == (steps[s].sampler ? checked[s].next(row) : BatchExecutor::kNoToken));
    }
  }
}

TEST_CASE("A step that a thread of the host failed may be repeated", "[cuda][gpu][batch][hybrid]") {
  const TinyTraits traits{.mix = "F16", .layers = 3, .experts = 8};
  const TinyModel tiny = model_of(traits);
  for (const NamedPlacement& c : cases_of(traits)) {
    if (!HostPlacement(tiny.model.spec, c.placement).computes()) continue;
    INFO(c.name);
    std::atomic<int> left{-1};  // operations until one fails; negative: none does
    ExecutorOptions options = shared_by(c.placement);
    options.before_host_op = [&](int thread) {
      if (thread == 1 && left >= 0 && left-- == 0) throw std::runtime_error("trouble");
    };
    const auto tried = batch_on_gpu(tiny, options),
               other = batch_on_gpu(tiny, shared_by(c.placement));
    auto sequences = sequences_of(3, 40, 500);
    int failures = 0;
    for (int step = 0; step < 4; ++step) {
      std::vector<SequenceStep> steps;
      for (Known& s : sequences) steps.push_back(s.next(step == 0 ? 20 : 1));
      const auto want = copy(other->logits(steps));
      for (int turn = 0;; ++turn) {  // one operation later each time, until none is left
        left = turn;
        try {
          const auto got = copy(tried->logits(steps));
          CHECK(got == want);
          break;
        } catch (const std::runtime_error&) {
          ++failures;
        }
      }
      left = -1;
    }
    CHECK(failures >= 4);
  }
}

TEST_CASE("The memory of a pool is shared as its layers are",
          "[cuda][gpu][batch][memory][hybrid]") {
  const TinyTraits traits{.mix = "Q4_K_M", .layers = 3};
  const TinyModel tiny = model_of(traits);
  for (const NamedPlacement& c : cases_of(traits)) {
    INFO(c.name);
    const ExecutorOptions options = shared_by(c.placement);
    const auto executor = batch_on_gpu(tiny, options, {.blocks = 40, .host_blocks = 6});
    const int on_host = layers_cached_on_host(c.placement);
    const double own = block_bytes(tiny, options.kv_types, on_host),
                 of_gpu = block_bytes(tiny, options.kv_types, traits.layers - on_host);
    CHECK(executor->host().kv.value == 46 * own + 6 * of_gpu);
    const double kv = executor->gpus().front().kv.value;
    CHECK(kv >= 41 * of_gpu);
    CHECK(kv <= 41 * of_gpu + (4 << 20));  // lists, and whole pages of memory
    auto sequences = sequences_of(3, 60, 500);
    std::vector<SequenceStep> steps;
    for (Known& s : sequences) steps.push_back(s.next(40));
    const Bytes before = executor->host().needed();
    static_cast<void>(executor->logits(steps));
    CHECK(executor->host().needed() == before);  // charged when it was made
  }
}

TEST_CASE("Where the host has caches, a limit of RAM says how many blocks there are",
          "[cuda][gpu][batch][memory][hybrid]") {
  const TinyTraits traits{.mix = "Q4_K_M", .layers = 3};
  const TinyModel tiny = model_of(traits);
  const auto model = std::make_shared<const Model>(tiny.model);
  ExecutorOptions options = shared_by(split(traits, 2));
  const BatchOptions open{.host_blocks = 3};
  const auto refused = make_cuda_batch_executor(model, options, open);
  REQUIRE(!refused);
  CHECK(refused.error().text().find("--ram-limit") != std::string::npos);
  options.ram_limit = 512_MiB;
  const auto made = make_cuda_batch_executor(model, options, open);
  if (!made) FAIL(made.error().text());
  const DeviceMemory host = (*made)->host();
  CHECK((*made)->limits().blocks > 1);
  CHECK(host.needed() <= 512_MiB);
  const double one = double((*made)->limits().block_tokens) *
                     kv_bytes_per_token(tiny.model.spec, 0, options.kv_types);
  CHECK((512_MiB - host.needed()).value < 2 * one + 4096);  // one layer is the host's
}

TEST_CASE("A batch is refused where the host decodes what the GPU has prefilled", "[cuda][batch]") {
  const TinyTraits traits{.mix = "Q4_K_M", .layers = 3};
  const auto model = std::make_shared<const Model>(model_of(traits).model);
  const auto refused = [&](const ExecutorOptions& options, const char* why) {
    const auto made = make_cuda_batch_executor(model, options, {.blocks = 8});
    REQUIRE(!made);
    INFO(made.error().text());
    CHECK(made.error().text().find(why) != std::string::npos);
  };
  refused(shared_by(with_host_decode(split(traits, 4))), "decode");
}
