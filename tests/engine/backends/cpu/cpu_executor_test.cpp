// Whole models on the CPU against the scalar F32 reference, teacher-forced.
#include "engine/backends/cpu/cpu_executor.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <random>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "core/model/traffic.hpp"
#include "engine/run/request.hpp"
#include "tests/catch.hpp"
#include "tests/decode_traffic.hpp"
#include "tests/engine/executor_fixture.hpp"
#include "tests/engine/logits_compare.hpp"

using namespace rigcast;
using namespace rigcast::engine;
using namespace rigcast::engine::fixtures;

namespace {

constexpr KvTypes kExactKv{QuantFormat::kF32, QuantFormat::kF32};

CpuExecutor executor_of(const TinyModel& tiny, CpuOptions options = {}) {
  return CpuExecutor(std::make_shared<const Model>(tiny.model), options);
}

std::vector<float> logits_of(CpuExecutor& executor, const std::vector<std::int32_t>& tokens) {
  const auto logits = executor.forward(tokens, Logits::kAll);
  return {logits.begin(), logits.end()};
}

// 512 positions in every format; none may differ in its first token unless the reference's own
// margin is within six standard deviations of the error of a difference of two logits.
void check_architecture(TinyTraits traits, const std::vector<std::string>& formats) {
  traits.layers = 2;
  for (const std::string& format : formats) {
    traits.mix = format;
    const TinyModel tiny = model_of(traits);
    const auto tokens = prompt_of(512, traits.vocabulary);
    const auto want = reference_logits(tiny, tokens);
    CpuExecutor executor = executor_of(tiny, {2, kExactKv, 128, 128});
    const Agreement a = compare(logits_of(executor, tokens), want);
    const bool floats = is_float(format);
    const double bound = floats ? 1e-9 : rounding_bound(traits);
    INFO(traits.architecture << " " << format);
    CAPTURE(a.mean_kl, a.nmse, a.widest_lost_margin, bound);
    CHECK(a.mean_kl <= (floats ? 1e-8 : 5e-3));
    CHECK(a.nmse <= bound);
    CHECK(a.widest_lost_margin <= 6 * std::sqrt(2 * bound));
  }
}

}  // namespace

TEST_CASE("llama gives the reference's logits", "[engine][executor]") {
  check_architecture({}, kMixes);
  check_architecture({}, {"Q4_1", "Q5_0", "Q5_1", "Q3_K_M", "Q2_K", "IQ4_NL", "IQ4_XS"});
  check_architecture({}, {"IQ1_S", "IQ1_M", "IQ2_XXS", "IQ2_S", "IQ2_M", "IQ3_XXS", "IQ3_M"});
}

TEST_CASE("Heads of 128 that share one KV head give the reference's logits", "[engine][executor]") {
  check_architecture({.heads = 2, .kv_heads = 1, .head_dim = 128}, {"F16", "Q4_K_M"});
}

TEST_CASE("Tied embeddings and scaled frequencies give the reference's logits",
          "[engine][executor]") {
  check_architecture({.tied = true, .rope_freqs = true}, {"F16", "Q8_0", "Q4_K_M"});
}

TEST_CASE("A sliding window gives the reference's logits", "[engine][executor]") {
  check_architecture({.window = 100}, {"F16", "Q4_K_M"});
  check_architecture({.window = 300, .window_full_every = 2}, {"F16", "Q8_0"});
}

TEST_CASE("Mixtral's experts give the reference's logits", "[engine][executor]") {
  check_architecture({.experts = 8}, kMixes);
}

TEST_CASE("qwen2 gives the reference's logits", "[engine][executor]") {
  check_architecture({.architecture = "qwen2", .qkv_bias = true}, kMixes);
}

TEST_CASE("qwen3 gives the reference's logits", "[engine][executor]") {
  check_architecture({.architecture = "qwen3", .qk_norm = true}, kMixes);
}

TEST_CASE("qwen3moe gives the reference's logits", "[engine][executor]") {
  check_architecture(
      {.architecture = "qwen3moe", .qk_norm = true, .experts = 16, .experts_used = 4}, kMixes);
}

TEST_CASE("MXFP4 experts give the reference's logits", "[engine][executor]") {
  check_architecture({.experts = 8}, {"MXFP4_MOE"});
}

TEST_CASE("Logits do not depend on threads or on the size of the cache's blocks",
          "[engine][executor]") {
  for (const char* mix : {"Q4_K_M", "F16"})
    for (const int experts : {0, 8}) {
      const TinyTraits traits{.mix = mix, .layers = 3, .experts = experts};
      const TinyModel tiny = model_of(traits);
      const auto tokens = prompt_of(300, traits.vocabulary);
      const auto run = [&](int threads, TokenCount block) {
        CpuExecutor executor = executor_of(tiny, {threads, {}, block, 256});
        auto logits = logits_of(executor, tokens);
        for (const std::int32_t next : {5, 17, 3}) {  // and tokens one by one
          const auto one = executor.forward({&next, 1}, Logits::kLast);
          logits.insert(logits.end(), one.begin(), one.end());
        }
        return logits;
      };
      const auto want = run(1, 128);
      CHECK(run(2, 128) == want);
      CHECK(run(5, 128) == want);
      CHECK(run(2, 16) == want);
      CHECK(run(3, 100) == want);
      CHECK(run(1, 512) == want);
    }
}

TEST_CASE("Tokens one by one give what they give together", "[engine][executor]") {
  for (const char* mix : {"Q4_K_M", "Q8_0", "F16"}) {
    const TinyTraits traits{.mix = mix, .layers = 3, .window = 150};
    const TinyModel tiny = make_tiny_model(traits);
    const auto tokens = prompt_of(200, traits.vocabulary);
    CpuExecutor together = executor_of(tiny, {1, kExactKv, 128, 64});
    CpuExecutor alone = executor_of(tiny, {1, kExactKv, 128, 64});
    const auto want = logits_of(together, tokens);
    std::vector<float> got;
    for (const std::int32_t& t : tokens) {
      const auto one = alone.forward({&t, 1}, Logits::kLast);
      got.insert(got.end(), one.begin(), one.end());
    }
    double error = 0, power = 0;
    for (std::size_t i = 0; i < got.size(); ++i) {
      error += std::pow(double(got[i]) - double(want[i]), 2);
      power += std::pow(double(want[i]), 2);
    }
    // The order of F32 sums differs, and where that moves a value over a rounding step, the
    // rounding: far less than the rounding itself.
    CHECK(error / power < rounding_bound(traits) / 3);
  }
}

TEST_CASE("A quantized cache stays close to one in F32", "[engine][executor]") {
  const TinyTraits traits{.mix = "F32", .layers = 3};
  const TinyModel tiny = make_tiny_model(traits);
  const auto tokens = prompt_of(512, traits.vocabulary);
  const auto want = ref::forward(tiny.model, tokens);
  const auto kl = [&](QuantFormat type) {
    CpuExecutor executor = executor_of(tiny, {2, {type, type}, 128, 128});
    return compare(logits_of(executor, tokens), want).mean_kl;
  };
  const double f16 = kl(QuantFormat::kF16), q8 = kl(QuantFormat::kQ8_0),
               q4 = kl(QuantFormat::kQ4_0);
  CAPTURE(f16, q8, q4);
  CHECK(f16 <= 1e-6);
  CHECK(q8 <= 1e-3);
  CHECK(q4 <= 5e-2);
  CHECK(f16 < q8);
  CHECK(q8 < q4);
}

TEST_CASE("Forgetting tokens and going on elsewhere leaves no trace", "[engine][executor]") {
  const TinyTraits traits{.mix = "Q8_0", .layers = 2};
  const TinyModel tiny = make_tiny_model(traits);
  CpuExecutor executor = executor_of(tiny, {2, {}, 16, 64});
  const auto tokens = prompt_of(60, traits.vocabulary);
  const auto want = logits_of(executor, tokens);
  executor.truncate(20);
  CHECK(executor.cached() == 20);
  logits_of(executor, prompt_of(77, 31));
  executor.truncate(0);
  CHECK(logits_of(executor, tokens) == want);
}

TEST_CASE("Recorded activities follow one another and hold all bytes", "[engine][executor]") {
  for (const int experts : {0, 8}) {
    const TinyTraits traits{.mix = "Q8_0", .layers = 3, .experts = experts};
    const TinyModel tiny = make_tiny_model(traits);
    CpuExecutor executor = executor_of(tiny, {2, {}, 128, 16});
    Recorder recorder;
    executor.record_into(&recorder);
    executor.forward(prompt_of(40, traits.vocabulary), Logits::kLast);
    const MovedBytes moved = executor.take_bytes();
    double bytes = 0, before = 0;
    std::size_t kinds = 0;
    for (const TraceEvent& e : recorder.events()) {
      CHECK(e.start_s >= before);
      CHECK(e.finish_s >= e.start_s);
      CHECK(e.track == "CPU");
      before = e.finish_s;
      bytes += e.bytes;
      kinds += e.kind == (experts ? ActivityKind::kExperts : ActivityKind::kFfn);
    }
    CHECK(kinds == 9);  // three batches of three layers
    CHECK(bytes == Approx(moved.total()));
  }
}

TEST_CASE("A decoded token moves the bytes that core counts", "[engine][executor]") {
  for (const TinyTraits& traits :
       std::vector<TinyTraits>{{.mix = "Q4_K_M"},
                               {.mix = "Q4_0", .tied = true, .rope_freqs = true},
                               {.mix = "F16", .window = 100},
                               {.architecture = "qwen2", .mix = "Q8_0", .qkv_bias = true},
                               {.architecture = "phi3", .mix = "Q4_K_M"},
                               {.architecture = "olmo2", .mix = "Q8_0", .window = 100},
                               {.architecture = "gemma2", .mix = "Q8_0", .tied = true},
                               {.architecture = "glm4", .mix = "F16"},
                               {.architecture = "qwen3moe",
                               .mix = "Q6_K",
                               .qk_norm = true,
                               .experts = 16,
                               .experts_used = 4}}) {
    const TinyModel tiny = make_tiny_model(traits);
    const ModelSpec& spec = tiny.model.spec;
    const KvTypes types{QuantFormat::kQ8_0, QuantFormat::kF16};
    CpuExecutor executor = executor_of(tiny, {2, types, 128, 64});
    executor.fill(333);
    executor.take_bytes();
    const std::int32_t token = 3;
    executor.forward({&token, 1}, Logits::kLast);
    const MovedBytes moved = executor.take_bytes();
    const auto table = make_tensor_table(spec, *QuantMix::from_name(traits.mix));
    const OpTraffic counted = decode_traffic(spec, *table, {333, 1, 1}, types);
    INFO(traits.architecture << " " << traits.mix);
    CHECK(moved.weights == Approx(counted.weight_bytes()).epsilon(1e-9));
    CHECK(moved.kv_read == Approx(counted.kv_read_bytes).epsilon(1e-9));
    CHECK(moved.kv_written == Approx(counted.kv_write_bytes).epsilon(1e-9));
  }
}

namespace {

// With room for the weights, a step's buffers and so many blocks of 16 tokens.
CpuExecutor limited(const TinyModel& tiny, TokenCount ubatch, int blocks) {
  CpuOptions options{2, kExactKv, 16, ubatch};
  CpuExecutor measure = executor_of(tiny, options);
  const Bytes weights = measure.host().weights;
  measure.forward(prompt_of(std::size_t(ubatch), 500), Logits::kLast);
  const double block = measure.host().kv.value / double((ubatch + 15) / 16);
  options.ram = Ram(weights + measure.host().activations + Bytes{block * blocks});
  return executor_of(tiny, options);
}

}  // namespace

TEST_CASE("The cache stops growing at the limit of memory, and what was decoded stays",
          "[engine][executor][memory]") {
  const TinyModel tiny = make_tiny_model({.mix = "F16", .layers = 2});
  const auto tokens = prompt_of(64, 500);
  CpuExecutor free = executor_of(tiny, {2, kExactKv, 16, 16});
  const auto want = logits_of(free, tokens);
  CpuExecutor executor = limited(tiny, 16, 3);
  const auto first = std::vector(tokens.begin(), tokens.begin() + 48);
  const std::size_t width = std::size_t(tiny.model.spec.vocabulary);
  const auto got = logits_of(executor, first);
  const Bytes held = executor.host().needed();
  std::string said;
  try {
    executor.forward({&tokens[48], 1}, Logits::kLast);
  } catch (const ShortOfMemory& e) {
    said = e.what();
  }
  CHECK(said.find("asked for the KV cache, 0 B free of a limit of ") != std::string::npos);
  CHECK(executor.cached() == 48);
  CHECK(executor.host().needed() == held);
  CHECK(std::equal(got.begin(), got.end(), want.begin()));
  // The executor continues when there is memory again.
  executor.truncate(32);
  const auto again = executor.forward({&tokens[32], 16}, Logits::kAll);
  CHECK(std::equal(again.begin(), again.end(), want.begin() + std::ptrdiff_t(32 * width)));
}

TEST_CASE("A prompt that does not fit leaves the context as it was", "[engine][executor][memory]") {
  const TinyModel tiny = make_tiny_model({.mix = "F16", .layers = 2});
  const auto tokens = prompt_of(64, 500);
  CpuExecutor executor = limited(tiny, 16, 3);
  executor.forward({tokens.data(), 20}, Logits::kNone);
  const Bytes held = executor.host().needed();
  CHECK_THROWS_AS(executor.forward({tokens.data() + 20, 44}, Logits::kLast), ShortOfMemory);
  CHECK(executor.cached() == 20);
  CHECK(executor.host().needed() == held);
  executor.forward({tokens.data() + 20, 28}, Logits::kLast);
  CHECK(executor.cached() == 48);
}

TEST_CASE("Buffers of a batch that do not fit are refused, and single tokens go on",
          "[engine][executor][memory]") {
  const TinyModel tiny = make_tiny_model({.mix = "F16", .layers = 2});
  const auto tokens = prompt_of(64, 500);
  CpuOptions options{2, kExactKv, 16, 64};
  options.ram = Ram(executor_of(tiny, options).host().weights + 600_KiB);
  CpuExecutor executor = executor_of(tiny, options);
  executor.forward({tokens.data(), 1}, Logits::kLast);
  std::string said;
  try {
    executor.forward({tokens.data() + 1, 63}, Logits::kLast);
  } catch (const ShortOfMemory& e) {
    said = e.what();
  }
  CHECK(said.find("asked for the activations") != std::string::npos);
  CHECK(executor.cached() == 1);
  executor.forward({tokens.data() + 1, 1}, Logits::kLast);
  CHECK(executor.cached() == 2);
}

TEST_CASE("Weights that exceed the limit are refused", "[engine][executor][memory]") {
  const TinyModel tiny = make_tiny_model({.mix = "F16", .layers = 2});
  CpuOptions options;
  options.ram = Ram(1_MiB);
  CHECK_THROWS_AS(executor_of(tiny, options), ShortOfMemory);
}

TEST_CASE("A prompt that is interrupted leaves the context as it was", "[engine][executor]") {
  const TinyModel tiny = model_of({.mix = "Q4_K_M", .layers = 4});
  const auto tokens = prompt_of(400, 500);
  const auto first = std::span(tokens).first(100), rest = std::span(tokens).subspan(100);
  std::atomic<bool> asked{false};
  CpuOptions options{2, kExactKv, 128, 64};
  options.stop = StopFlag(asked);
  CpuExecutor executor = executor_of(tiny, options);
  executor.forward(first, Logits::kNone);
  int ended_early = 0;
  for (int round = 0; round < 20; ++round) {
    std::thread other([&] {
      std::this_thread::sleep_for(std::chrono::microseconds(200 * round));
      asked = true;
    });
    try {
      executor.forward(rest, Logits::kNone);
      executor.truncate(100);
    } catch (const Interrupted&) {
      ++ended_early;
    }
    other.join();
    CHECK(executor.cached() == 100);
    asked = false;
  }
  CHECK(ended_early > 0);
  const auto got = executor.forward(rest, Logits::kLast);
  CpuExecutor other = executor_of(tiny, {2, kExactKv, 128, 64});
  other.forward(first, Logits::kNone);
  CHECK(std::ranges::equal(got, other.forward(rest, Logits::kLast)));
}

// Asks to stop at many times, some of which are while the next token is chosen.
TEST_CASE("A token that is interrupted while the next is chosen is not cached",
          "[engine][executor]") {
  const TinyModel tiny = model_of({.mix = "F32", .layers = 1, .vocabulary = 60000});
  std::atomic<bool> asked{false};
  CpuOptions options{2, kExactKv};
  options.stop = StopFlag(asked);
  CpuExecutor executor = executor_of(tiny, options);
  executor.forward(prompt_of(20, 500), Logits::kNone);
  Sampler sampler({.temperature = 1, .top_k = 0, .seed = 1});
  int ended_early = 0;
  for (int round = 0; round < 60; ++round) {
    std::thread other([&] {
      std::this_thread::sleep_for(std::chrono::microseconds(100 * round));
      asked = true;
    });
    const std::uint64_t drawn = sampler.drawn();
    try {
      executor.decode(3, sampler);
      CHECK(executor.cached() == 21);
      executor.truncate(20);
    } catch (const Interrupted&) {
      ++ended_early;
      CHECK(executor.cached() == 20);
      CHECK(sampler.drawn() == drawn);
    }
    other.join();
    asked = false;
  }
  CHECK(ended_early > 0);
}

TEST_CASE("An interrupted request returns the tokens that exist", "[engine][executor]") {
  const TinyModel tiny = model_of({.mix = "Q4_K_M"});
  const auto tokens = prompt_of(20, 500);
  std::atomic<bool> asked{false};
  CpuOptions options{2, kExactKv};
  options.stop = StopFlag(asked);
  CpuExecutor executor = executor_of(tiny, options);
  Sampler sampler{Sampling{}};
  Recorder recorder;
  int told = 0;
  const auto ask_at_third = [&](std::int32_t) {
    if (++told == 3) asked = true;
    return true;  // nobody looks between tokens
  };
  const RequestTimes times = run_request(executor, tokens, 50, sampler, ask_at_third, &recorder);
  CHECK(times.ids.size() == 3);
  CHECK(times.tokens.at_s.size() == 3);
  CHECK(executor.cached() == 22);
  CHECK_THROWS_AS(run_request(executor, tokens, 50, sampler, {}, &recorder), Interrupted);
  asked = false;
  const std::size_t events = recorder.events().size();
  executor.forward(tokens, Logits::kLast);  // the recorder may be gone by then
  CHECK(recorder.events().size() == events);
}

namespace {

// Of windows that batches and blocks cross.
const TinyTraits kWindowed{.mix = "Q8_0", .layers = 4, .window = 40, .window_full_every = 2};

CpuOptions with_rings(bool rings, KvTypes types = {}) {
  CpuOptions options{2, types, 16, 48};
  if (!rings) options.window_blocks = 0;
  return options;
}

}  // namespace

TEST_CASE("Rings of layers with a window change no bit", "[engine][executor]") {
  const TinyModel tiny = make_tiny_model(kWindowed);
  const auto tokens = prompt_of(330, kWindowed.vocabulary);
  const auto prompt = std::span(tokens).first(300);
  for (const KvTypes& types :
       {KvTypes{}, kExactKv, KvTypes{QuantFormat::kQ8_0, QuantFormat::kQ4_0}}) {
    CpuExecutor ring = executor_of(tiny, with_rings(true, types)),
                all = executor_of(tiny, with_rings(false, types));
    const auto same = [&](std::span<const std::int32_t> some) {
      const auto want = all.forward(some, Logits::kAll), got = ring.forward(some, Logits::kAll);
      return std::equal(want.begin(), want.end(), got.begin(), got.end());
    };
    CHECK(same(prompt));
    for (std::size_t i = 300; i < tokens.size(); ++i) CHECK(same({&tokens[i], 1}));
    // 330 tokens are 21 blocks; a ring has the seven of 39 tokens and 48.
    CHECK(all.cache().bytes() == 4 * 21 * all.cache().layer_bytes());
    CHECK(ring.cache().bytes() == 2 * (21 + 7) * ring.cache().layer_bytes());
    // Goes on from where the window's tokens still are.
    ring.truncate(325);
    all.truncate(325);
    CHECK(ring.cached() == 325);
    CHECK(same(std::span(tokens).first(20)));
  }
}

TEST_CASE("A context that is cut where its window is gone is computed again",
          "[engine][executor]") {
  const TinyModel tiny = make_tiny_model(kWindowed);
  CpuExecutor executor = executor_of(tiny, with_rings(true));
  const auto tokens = prompt_of(300, kWindowed.vocabulary);
  const auto want = logits_of(executor, tokens);
  executor.truncate(100);
  CHECK(executor.cached() == 0);
  CHECK(logits_of(executor, tokens) == want);
  executor.truncate(0);
  executor.fill(250);
  CHECK(executor.cached() == 250);
  logits_of(executor, prompt_of(20, 31));
}

TEST_CASE("Wherever contexts with rings are cut, what remains is right", "[engine][executor]") {
  const TinyModel tiny = make_tiny_model(kWindowed);
  CpuExecutor ring = executor_of(tiny, with_rings(true)),
              all = executor_of(tiny, with_rings(false));
  std::mt19937 random(5);
  const auto below = [&](std::size_t end) { return std::size_t(random()) % end; };
  const auto ids = prompt_of(1000, kWindowed.vocabulary);
  int kept = 0, gone = 0;
  for (int round = 0; round < 150; ++round) {
    if (below(3) == 0 && ring.cached() > 0) {
      // Most cuts are near the end, where rings have what is needed.
      const TokenCount back = TokenCount(below(below(2) == 0 ? 30 : 400));
      const TokenCount to = std::max<TokenCount>(0, ring.cached() - back);
      ring.truncate(to);
      REQUIRE((ring.cached() == to || ring.cached() == 0));
      ++(ring.cached() == to ? kept : gone);
      all.truncate(ring.cached());
      REQUIRE(all.cached() == ring.cached());
    }
    const auto some = std::span(ids).subspan(below(500), 1 + below(below(2) == 0 ? 4 : 150));
    const auto want = all.forward(some, Logits::kLast), got = ring.forward(some, Logits::kLast);
    REQUIRE(std::equal(want.begin(), want.end(), got.begin(), got.end()));
  }
  CHECK(kept > 10);
  CHECK(gone > 3);
}
