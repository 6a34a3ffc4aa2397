// Prompts on the GPU, tokens on the host: keys and values are copied in both directions.
#include "core/model/traffic.hpp"
#include "tests/cuda/executor/placements.hpp"
#include "tests/cuda/executor/whole_models.hpp"
#include "tests/decode_traffic.hpp"

using namespace rigcast;
using namespace rigcast::engine;
using namespace rigcast::engine::fixtures;

namespace {

ExecutorOptions host_decodes(const TinyTraits& t, int gpu_layers) {
  ExecutorOptions options = shared_by(with_host_decode(split(t, gpu_layers)));
  options.kv_block = 16;
  options.ubatch = 64;
  return options;
}

void append(std::vector<float>& to, const std::vector<float>& more) {
  to.insert(to.end(), more.begin(), more.end());
}

std::vector<std::int32_t> part(const std::vector<std::int32_t>& tokens, std::size_t from,
                               std::size_t to) {
  return {tokens.begin() + std::ptrdiff_t(from), tokens.begin() + std::ptrdiff_t(to)};
}

// Two prompts, of two batches and of one, with single tokens after each, and again from a position
// inside the first answer: logits of every position.
std::vector<float> conversation(Executor& executor, const std::vector<std::int32_t>& tokens) {
  std::vector<float> all = together(executor, part(tokens, 0, 100));
  const std::size_t width = all.size() / 100;
  append(all, one_by_one(executor, part(tokens, 100, 121)));
  append(all, together(executor, part(tokens, 121, 139)));
  append(all, one_by_one(executor, part(tokens, 139, 150)));
  executor.truncate(107);
  all.resize(107 * width);
  append(all, one_by_one(executor, part(tokens, 107, 110)));
  append(all, together(executor, part(tokens, 110, 145)));
  append(all, one_by_one(executor, part(tokens, 145, 150)));
  return all;
}

void check(const TinyTraits& traits, const std::vector<std::string>& mixes) {
  for_each_mix(traits, mixes, [](const KnownModel& known) {
    for (const int gpu_layers : {4, 3, 1, 0}) {
      const auto executor = on_gpu(known.tiny, host_decodes(known.traits, gpu_layers));
      INFO(known.name() << ", " << gpu_layers << " layers on the GPU");
      check_near(known, compare(conversation(*executor, known.tokens), known.want));
    }
  });
}

}  // namespace

TEST_CASE("Prompts on the GPU and tokens on the host give the reference's logits, alternately",
          "[cuda][gpu][hybrid]") {
  check({}, {"F32", "F16", "Q8_0", "Q4_K_M"});
  check({.architecture = "qwen3", .tied = true, .qk_norm = true}, {"F16"});
  check({.architecture = "qwen2", .qkv_bias = true}, {"Q4_K_M"});
  check({.window = 100}, {"F16"});
  check({.experts = 8}, {"F16", "Q4_K_M"});
}

TEST_CASE("Quantized caches are handed over as they are", "[cuda][gpu][hybrid]") {
  const TinyTraits traits{.mix = "F16", .layers = 3};
  const TinyModel tiny = make_tiny_model(traits);
  const auto tokens = prompt_of(150, traits.vocabulary);
  for (const QuantFormat type : {QuantFormat::kQ8_0, QuantFormat::kQ4_0}) {
    ExecutorOptions alone;
    alone.kv_types = {type, type};
    const auto gpu = on_gpu(tiny, alone);
    std::vector<std::vector<float>> want;
    const std::vector<float> rows = together(*gpu, tokens);
    const std::size_t width = rows.size() / tokens.size();
    for (std::size_t i = 0; i < tokens.size(); ++i)
      want.emplace_back(rows.begin() + std::ptrdiff_t(i * width),
                        rows.begin() + std::ptrdiff_t((i + 1) * width));
    ExecutorOptions options = host_decodes(traits, 4);
    options.kv_types = alone.kv_types;
    const auto shared = on_gpu(tiny, options);
    const Agreement a = compare(conversation(*shared, tokens), want);
    // Rounded values differ by FP16 errors, so the two roundings may be independent: each has a
    // mean of a twelfth of the squared step, for keys and for values, in every layer.
    const double step = type == QuantFormat::kQ8_0 ? 2.6 / 127.0 : 2.6 / 8.0;
    CAPTURE(a.mean_kl, a.nmse);
    CHECK(a.nmse <= 2 * half_bound(traits) + 2 * step * step / 6.0 * traits.layers);
  }
}

TEST_CASE("Each side gets what the other has added, in whole blocks", "[cuda][gpu][hybrid]") {
  const TinyTraits traits{.mix = "F16", .layers = 3};
  const TinyModel tiny = make_tiny_model(traits);
  const double hidden = double(traits.hidden) * sizeof(float);
  for (const int gpu_layers : {4, 2}) {
    INFO(gpu_layers << " layers on the GPU");
    const int here = std::min(gpu_layers, traits.layers);
    const auto executor = on_gpu(tiny, host_decodes(traits, gpu_layers));
    // Keys and values in F16, 16 tokens of the layers that the GPU computes.
    const double block = 16.0 * 2 * double(traits.kv_heads * traits.head_dim) * 2 * here;
    // Hidden states stay on the host from the embedding to the first layer of the GPU.
    const auto rows_up = [&](double tokens) { return tokens * hidden * (here < 3 ? 2 : 1); };
    const auto rows_down = [&](double tokens) { return tokens * hidden * (here < 3 ? 1 : 0); };
    executor->take_bytes();
    executor->forward(prompt_of(100, 500), Logits::kLast);
    MovedBytes moved = executor->take_bytes();
    CHECK(moved.to_host == 7 * block + rows_down(100) + hidden);  // and of the last to the head
    CHECK(moved.to_gpu == rows_up(100));
    Sampler sampler({});
    const Bytes vram = executor->gpus().front().kv;
    std::int32_t id = 7;
    for (int i = 0; i < 5; ++i) id = executor->decode(id, sampler);
    moved = executor->take_bytes();
    CHECK(moved.to_host == 0);
    CHECK(moved.to_gpu == 0);
    CHECK(moved.on_host == moved.total());
    CHECK(executor->gpus().front().kv == vram);
    executor->forward(prompt_of(20, 500), Logits::kNone);
    moved = executor->take_bytes();
    CHECK(moved.to_gpu == block + rows_up(20));         // tokens 100 to 104
    CHECK(moved.to_host == 2 * block + rows_down(20));  // 105 to 124
    executor->truncate(0);
    executor->forward(prompt_of(20, 500), Logits::kNone);
    moved = executor->take_bytes();
    CHECK(moved.to_gpu == rows_up(20));
    CHECK(moved.to_host == 2 * block + rows_down(20));
  }
}

TEST_CASE("The host reads all weights of a token that it decodes", "[cuda][gpu][hybrid]") {
  const TinyTraits traits{.mix = "Q4_K_M", .layers = 3};
  const TinyModel tiny = make_tiny_model(traits);
  const auto executor = on_gpu(tiny, host_decodes(traits, 4));
  executor->fill(40);
  executor->take_bytes();
  Sampler sampler({});
  executor->decode(7, sampler);
  const MovedBytes moved = executor->take_bytes();
  const auto table = make_tensor_table(tiny.model.spec, *QuantMix::from_name(traits.mix));
  const OpTraffic counted = decode_traffic(tiny.model.spec, *table, {40, 1, 1}, {});
  CHECK(moved.weights == Approx(counted.weight_bytes()).epsilon(1e-9));
  CHECK(moved.kv_read == Approx(counted.kv_read_bytes).epsilon(1e-9));
  CHECK(moved.on_host == moved.total());
}

TEST_CASE("A filled depth is on both sides", "[cuda][gpu][hybrid]") {
  const TinyTraits traits{.mix = "F32", .layers = 3};
  const TinyModel tiny = make_tiny_model(traits);
  const auto tokens = prompt_of(40, 500);
  const auto executor = on_gpu(tiny, host_decodes(traits, 4));
  executor->fill(50);
  const std::vector<float> in_batch = together(*executor, tokens);
  executor->truncate(50);
  const std::vector<float> by_host = one_by_one(*executor, tokens);
  std::vector<std::vector<float>> want;
  const std::size_t width = by_host.size() / tokens.size();
  for (std::size_t i = 0; i < tokens.size(); ++i)
    want.emplace_back(by_host.begin() + std::ptrdiff_t(i * width),
                      by_host.begin() + std::ptrdiff_t((i + 1) * width));
  CHECK(compare(in_batch, want).nmse <= half_bound(traits));
}

TEST_CASE("Layers that are decoded elsewhere one by one are refused", "[cuda]") {
  const TinyTraits traits{.layers = 3};
  const TinyModel tiny = make_tiny_model(traits);
  Placement p = split(traits, 4);
  p.layers[1].decode_on = kHost;
  const auto made = make_cuda_executor(std::make_shared<const Model>(tiny.model), shared_by(p));
  REQUIRE(!made);
  CHECK(made.error().kind == ErrorKind::kBadInput);
}
