// Whole models on the GPU against the scalar F32 reference and the CPU, teacher-forced.
#include "engine/backends/cuda/make_cuda_executor.hpp"

#include <algorithm>
#include <set>

#include "core/model/traffic.hpp"
#include "engine/synth/synthetic_model.hpp"
#include "engine/threads/thread_team.hpp"
#include "tests/catch.hpp"
#include "tests/cuda/executor/whole_models.hpp"
#include "tests/decode_traffic.hpp"
#include "tests/engine/executor_fixture.hpp"

using namespace rigcast;
using namespace rigcast::engine;
using namespace rigcast::engine::fixtures;

namespace {

void check(TinyTraits traits, const std::vector<std::string>& mixes) {
  traits.layers = 2;
  for (const std::string& mix : mixes) {
    traits.mix = mix;
    const TinyModel tiny = model_of(traits);
    const auto tokens = prompt_of(200, traits.vocabulary);
    const auto want = reference_logits(tiny, tokens);
    for (const Way& way : kWays) {
      const Agreement a = agreement_of(tiny, way, tokens, want);
      // For single tokens all products quantize activations; in a batch only the head does, and
      // experts in formats without grouped products.
      TinyTraits integers = traits;
      if (way.ubatch > 1 && traits.experts == 0) integers.layers = 0;
      const double bound = half_bound(traits) + (is_float(mix) ? 0 : rounding_bound(integers));
      INFO(traits.architecture << " " << mix << " " << way.name);
      CAPTURE(a.mean_kl, a.nmse, a.top1, a.widest_lost_margin, bound);
      CHECK(a.mean_kl <= (is_float(mix) ? 1e-3 : 5e-3));
      CHECK(a.nmse <= bound);
      CHECK(a.widest_lost_margin <= 6 * std::sqrt(2 * bound));
    }
  }
}

}  // namespace

TEST_CASE("llama on a GPU gives the reference's logits", "[cuda][gpu][executor]") {
  check({}, kMixes);
  check({}, {"Q4_1", "Q5_0", "Q5_1", "Q3_K_M", "Q2_K", "IQ4_NL", "IQ4_XS"});
  check({}, {"IQ1_S", "IQ1_M", "IQ2_XXS", "IQ2_S", "IQ2_M", "IQ3_XXS", "IQ3_M"});
}

TEST_CASE("Heads of 128 that share one KV head, on a GPU", "[cuda][gpu][executor]") {
  check({.heads = 2, .kv_heads = 1, .head_dim = 128}, {"F16", "Q4_K_M"});
}

TEST_CASE("Tied embeddings and scaled frequencies on a GPU", "[cuda][gpu][executor]") {
  check({.tied = true, .rope_freqs = true}, {"F16", "Q8_0", "Q4_K_M"});
}

TEST_CASE("Sliding windows on a GPU", "[cuda][gpu][executor]") {
  check({.window = 100}, {"F16", "Q4_K_M"});
  check({.window = 130, .window_full_every = 2}, {"F16", "Q8_0"});
}

TEST_CASE("Experts on a GPU", "[cuda][gpu][executor]") {
  check({.experts = 8}, kMixes);
  check({.architecture = "qwen3moe", .qk_norm = true, .experts = 16, .experts_used = 4}, kMixes);
  check({.experts = 8}, {"MXFP4_MOE"});
}

TEST_CASE("qwen2 and qwen3 on a GPU", "[cuda][gpu][executor]") {
  check({.architecture = "qwen2", .qkv_bias = true}, kMixes);
  check({.architecture = "qwen3", .qk_norm = true}, kMixes);
}

TEST_CASE("A token as one graph gives the bits of its kernels one by one",
          "[cuda][gpu][executor]") {
  for (const char* mix : {"Q4_K_M", "F16"})
    for (const int experts : {0, 8}) {
      const TinyModel tiny = model_of({.mix = mix, .layers = 3, .experts = experts});
      const auto tokens = prompt_of(150, 500);
      const auto run = [&](bool graphs) {
        ExecutorOptions options;
        options.graphs = graphs;
        const auto executor = on_gpu(tiny, options);
        auto all = together(*executor, tokens);
        const auto more = one_by_one(*executor, prompt_of(30, 400));
        all.insert(all.end(), more.begin(), more.end());
        return all;
      };
      CHECK(run(true) == run(false));
    }
}

TEST_CASE("Greedy tokens are chosen on the GPU as on the host", "[cuda][gpu][executor]") {
  const TinyModel tiny = make_tiny_model({.mix = "Q4_K_M", .layers = 3});
  const auto prompt = prompt_of(40, 500);
  const auto a = on_gpu(tiny), b = on_gpu(tiny);
  Sampler sampler({});
  const auto first = sampler.next(a->forward(prompt, Logits::kLast));
  b->forward(prompt, Logits::kLast);
  std::int32_t x = first, y = first;
  for (int i = 0; i < 200; ++i) {
    x = a->decode(x, sampler);
    y = sampler.next(b->forward({&y, 1}, Logits::kLast));
    REQUIRE(x == y);
  }
}

TEST_CASE("Tokens that are computed before they are asked for are the same",
          "[cuda][gpu][executor]") {
  const std::int64_t window = GENERATE(0, 32);
  const TinyModel tiny = make_tiny_model({.mix = "Q4_K_M", .layers = 3, .window = window});
  const auto prompt = prompt_of(40, 500);
  const auto ahead = on_gpu(tiny), plain = on_gpu(tiny);
  Sampler greedy({});
  const auto continue_both = [&](std::int32_t id, int tokens, int expected) {
    std::int32_t other = id;
    ahead->expect(expected);
    for (int i = 0; i < tokens; ++i) {
      id = ahead->decode(id, greedy);
      other = plain->decode(other, greedy);
      REQUIRE(id == other);
      REQUIRE(ahead->cached() == plain->cached());
    }
    return id;
  };
  const auto check_logits = [&](std::int32_t id) {
    const auto of = [&](Executor& e) {
      const auto row = e.forward({&id, 1}, Logits::kLast);
      return std::vector<float>(row.begin(), row.end());
    };
    CHECK(of(*ahead) == of(*plain));
  };
  std::int32_t id = greedy.next(ahead->forward(prompt, Logits::kLast));
  REQUIRE(id == greedy.next(plain->forward(prompt, Logits::kLast)));
  id = continue_both(id, 50, 50);
  id = continue_both(id, 20, 1000);              // one was computed for nothing
  id = continue_both((id + 1) % 500, 600, 600);  // another token follows; past a graph's bucket
  id = continue_both(id, 1, 5);
  check_logits(id);  // not those of the token ahead
  continue_both(id, 1, 5);
  if (window > 0) return;  // the token ahead may have taken the place of the oldest one
  for (Executor* const e : {ahead.get(), plain.get()}) e->truncate(e->cached() - 7);
  check_logits(id);
}

namespace {

// Every other token, or none, is sampled by the host from logits that were copied to it.
std::vector<std::int32_t> sampled(const TinyModel& tiny, const Sampling& sampling, bool on_host,
                                  bool mixed, bool graphs = true) {
  const auto executor = on_gpu(tiny, {.graphs = graphs});
  Sampler sampler(sampling);
  std::vector<std::int32_t> ids;
  ids.push_back(sampler.next(executor->forward(prompt_of(40, 500), Logits::kLast)));
  for (int i = 0; i < 150; ++i) {
    const std::int32_t id = ids.back();
    ids.push_back(on_host || (mixed && i % 2 == 0)
                      ? sampler.next(executor->forward({&id, 1}, Logits::kLast))
                      : executor->decode(id, sampler));
  }
  CHECK(sampler.drawn() == ids.size());
  return ids;
}

}  // namespace

TEST_CASE("Tokens drawn on the GPU are those that the host draws", "[cuda][gpu][executor]") {
  const TinyModel tiny = make_tiny_model({.mix = "Q4_K_M", .layers = 2});
  for (const int top_k : {40, 0}) {
    const Sampling sampling{.temperature = 0.9f, .top_k = top_k, .top_p = 0.95f, .seed = 5};
    const auto want = sampled(tiny, sampling, true, false);
    CHECK(std::set(want.begin(), want.end()).size() > 20);  // else little was drawn
    CHECK(sampled(tiny, sampling, false, false) == want);
    CHECK(sampled(tiny, sampling, false, true) == want);
    CHECK(sampled(tiny, sampling, false, false, false) == want);
  }
}

TEST_CASE("More tokens than a GPU draws from are drawn from by the host", "[cuda][gpu][executor]") {
  const TinyModel tiny = make_tiny_model({.mix = "Q8_0", .layers = 1, .vocabulary = 2000});
  const auto executor = on_gpu(tiny);
  const auto choices = [&](int top_k) {
    Recorder recorder;
    executor->record_into(&recorder);
    Sampler sampler({.temperature = 1, .top_k = top_k});
    executor->decode(3, sampler);
    executor->record_into(nullptr);
    CHECK(sampler.drawn() == 1);
    return std::ranges::count(recorder.events(), ActivityKind::kSample, &TraceEvent::kind);
  };
  CHECK(choices(40) == 1);
  CHECK(choices(1024) == 1);
  CHECK(choices(1025) == 2);  // the likeliest by the GPU, and the draw
  CHECK(choices(0) == 2);
}

TEST_CASE("The size of the cache's blocks changes nothing", "[cuda][gpu][executor]") {
  const TinyModel tiny = make_tiny_model({.mix = "Q8_0", .layers = 2});
  const auto tokens = prompt_of(300, 500);
  const auto run = [&](TokenCount block) {
    ExecutorOptions options;
    options.kv_block = block;
    return together(*on_gpu(tiny, options), tokens);
  };
  const auto want = run(128);
  CHECK(run(16) == want);
  CHECK(run(256) == want);
}

TEST_CASE("A quantized cache on a GPU stays close", "[cuda][gpu][executor]") {
  const TinyModel tiny = make_tiny_model({.mix = "F16", .layers = 3});
  const auto tokens = prompt_of(300, 500);
  const auto want = ref::forward(tiny.model, tokens);
  for (const auto& [type, most] :
       {std::pair{QuantFormat::kQ8_0, 1e-3}, {QuantFormat::kQ4_0, 5e-2}}) {
    ExecutorOptions options;
    options.kv_types = {type, type};
    CHECK(compare(together(*on_gpu(tiny, options), tokens), want).mean_kl <= most);
    CHECK(compare(one_by_one(*on_gpu(tiny, options), tokens), want).mean_kl <= most);
  }
}

TEST_CASE("A token on a GPU moves the bytes that core counts", "[cuda][gpu][executor]") {
  for (const TinyTraits& traits :
       std::vector<TinyTraits>{{.mix = "Q4_K_M"},
                               {.mix = "Q4_0", .tied = true, .rope_freqs = true},
                               {.mix = "F16", .window = 100},
                               {.architecture = "qwen2", .mix = "Q8_0", .qkv_bias = true},
                               {.architecture = "qwen3moe",
                               .mix = "Q6_K",
                               .qk_norm = true,
                               .experts = 16,
                               .experts_used = 4}}) {
    const TinyModel tiny = make_tiny_model(traits);
    ExecutorOptions options;
    options.kv_types = {QuantFormat::kQ8_0, QuantFormat::kF16};
    const auto executor = on_gpu(tiny, options);
    executor->fill(333);
    executor->take_bytes();
    const std::int32_t token = 3;
    executor->forward({&token, 1}, Logits::kLast);
    const MovedBytes moved = executor->take_bytes();
    const auto table = make_tensor_table(tiny.model.spec, *QuantMix::from_name(traits.mix));
    const OpTraffic counted =
        decode_traffic(tiny.model.spec, *table, {333, 1, 1}, options.kv_types);
    INFO(traits.architecture << " " << traits.mix);
    CHECK(moved.weights == Approx(counted.weight_bytes()).epsilon(1e-9));
    CHECK(moved.kv_read == Approx(counted.kv_read_bytes).epsilon(1e-9));
    CHECK(moved.kv_written == Approx(counted.kv_write_bytes).epsilon(1e-9));
  }
}

TEST_CASE("Weights made on the GPU are those of the host", "[cuda][gpu][executor]") {
  const TinyModel tiny = make_tiny_model({.mix = "Q4_K_M"});
  const auto table = make_tensor_table(tiny.model.spec, *QuantMix::from_name("Q4_K_M"));
  REQUIRE(table);
  ThreadTeam team(2);
  auto host = make_synthetic_model(tiny.model.spec, *table, 7, team);
  REQUIRE(host);
  auto a = make_cuda_executor(std::make_shared<const Model>(*std::move(host)), ExecutorOptions{});
  auto b = make_synthetic_cuda_executor(tiny.model.spec, *table, 7, {});
  REQUIRE(a);
  REQUIRE(b);
  const auto tokens = prompt_of(50, 500);
  CHECK(together(**a, tokens) == together(**b, tokens));
}

TEST_CASE("Weights that a limit does not hold are refused, and the GPU stays usable",
          "[cuda][gpu][executor]") {
  const TinyModel tiny = make_tiny_model({.mix = "F16"});
  ExecutorOptions options;
  options.vram_limit = Bytes{1e6};
  const auto made = make_cuda_executor(std::make_shared<const Model>(tiny.model), options);
  REQUIRE_FALSE(made);
  CHECK(made.error().text().find("weights") != std::string::npos);
  CHECK(on_gpu(tiny)->forward(prompt_of(20, 500), Logits::kLast).size() == 500);
}

// Products of a batch read F16 weights in place, so no memory is needed for dequantized weights.
TEST_CASE("FP16 buffers are allocated for weights in other formats", "[cuda][gpu][executor]") {
  const auto activations = [](const char* mix) {
    return on_gpu(model_of({.mix = mix, .layers = 2}))->gpus().front().activations.value;
  };
  const TinyModel tiny = model_of({.mix = "BF16", .layers = 2});
  std::int64_t most = 0;
  const auto count = [](const Matrix& m) { return m.rows * m.columns; };
  for (const Layer& l : tiny.model.layers)
    most = std::max({most, count(l.q) + count(l.k) + count(l.v), count(l.output),
                     count(l.gate) + count(l.up), count(l.down)});
  const double reserved = double((2 * most + 255) / 256 * 256);
  CHECK(activations("BF16") - activations("F16") == reserved - 256);  // the least that is reserved
}

TEST_CASE("Recorded activities of a GPU follow one another", "[cuda][gpu][executor]") {
  const TinyModel tiny = make_tiny_model({.mix = "Q8_0", .layers = 3});
  const auto executor = on_gpu(tiny, {.ubatch = 16});
  Recorder recorder;
  executor->record_into(&recorder);
  executor->forward(prompt_of(40, 500), Logits::kLast);
  double before = 0;
  int ffn = 0;
  for (const TraceEvent& e : recorder.events()) {
    CHECK(e.start_s >= before - 1e-5);  // marks of the GPU's clock are half a microsecond apart
    CHECK(e.finish_s >= e.start_s);
    CHECK(e.track == "GPU 0");
    before = e.start_s;
    ffn += e.kind == ActivityKind::kFfn;
  }
  CHECK(ffn == 7);  // of three layers and batches; the last layer's for the last batch alone
}

namespace {

// A batch of two parts, of which the first has two tiles of attention; single tokens across the end
// of a block of the cache, by captured graphs and kernel by kernel; and sampled tokens.
void run_watched(const TinyTraits& traits, QuantFormat kv) {
  const TinyModel tiny = model_of(traits);
  for (const bool graphs : {true, false}) {
    ExecutorOptions options{.kv_block = 48, .ubatch = 32, .graphs = graphs};
    options.kv_types = {kv, kv};
    const auto executor = on_gpu(tiny, options);
    Sampler greedy({}), drawing({.temperature = 1});
    std::int32_t id = greedy.next(executor->forward(prompt_of(46, 500), Logits::kLast));
    for (int i = 0; i < 3; ++i) id = executor->decode(id, greedy);
    id = executor->decode(id, drawing);
    for (const float logit : executor->forward({&id, 1}, Logits::kLast))
      REQUIRE(std::isfinite(logit));
  }
}

}  // namespace

// Few kernels are launched here, but all kinds of them, because sanitizers slow down each.
TEST_CASE("A dense model of mixed formats gives finite logits under every sanitizer",
          "[cuda][gpu][executor][sanitize]") {
  run_watched({.mix = "Q4_K_M", .layers = 2, .window = 30}, QuantFormat::kF16);
}

TEST_CASE("A model of float weights gives finite logits under every sanitizer",
          "[cuda][gpu][executor][sanitize]") {
  run_watched({.architecture = "qwen3", .mix = "F16", .layers = 1, .qk_norm = true},
              QuantFormat::kF16);
}

TEST_CASE("Experts give finite logits under every sanitizer", "[cuda][gpu][executor][sanitize]") {
  run_watched({.mix = "Q4_K_M", .layers = 1, .experts = 8}, QuantFormat::kF16);
}

TEST_CASE("A quantized cache gives finite logits under every sanitizer",
          "[cuda][gpu][executor][sanitize]") {
  run_watched({.architecture = "qwen2", .mix = "Q8_0", .layers = 1, .qkv_bias = true},
              QuantFormat::kQ8_0);
}
