// Keys and values that are evicted from the GPU's memory, and copied back for every step.
#include <algorithm>

#include "engine/backends/cuda/host_offload/measure_kv_split.cuh"
#include "engine/kernels/cuda/kv/quantize_kv_block.cuh"
#include "tests/cuda/executor/whole_models.hpp"
#include "tests/cuda/kernels/cache_data.cuh"

using namespace rigcast;
using namespace rigcast::engine;
using namespace rigcast::engine::fixtures;

namespace {

constexpr TokenCount kBlock = 16;

ExecutorOptions keeping(TokenCount hot_tokens, QuantFormat cold_type = QuantFormat::kF16) {
  ExecutorOptions options;
  options.kv_block = kBlock;
  options.ubatch = 48;
  options.kv_eviction = KvEviction{.hot_tokens = hot_tokens};
  options.cold_type = cold_type;
  return options;
}

ExecutorOptions keeping_all() {
  ExecutorOptions options = keeping(0);
  options.kv_eviction.reset();
  return options;
}

// A prompt in batches, then single tokens.
std::vector<float> logits_of(const TinyModel& tiny, const ExecutorOptions& options) {
  const auto executor = on_gpu(tiny, options);
  auto all = together(*executor, prompt_of(200, 500));
  const auto more = one_by_one(*executor, prompt_of(60, 400));
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

}  // namespace

TEST_CASE("A cache evicted from the GPU in FP16 gives the logits of one that stays",
          "[cuda][gpu][hybrid]") {
  for (const TinyTraits& traits :
       std::vector<TinyTraits>{{.mix = "Q4_K_M", .layers = 1},
                               {.mix = "Q4_K_M", .layers = 4},
                               {.mix = "Q4_0", .layers = 9},  // come back two at a time
                               {.mix = "F16", .layers = 3, .window = 100},
                               {.mix = "Q8_0", .layers = 3, .experts = 8}}) {
    const TinyModel tiny = model_of(traits);
    const auto want = logits_of(tiny, keeping_all());
    for (const TokenCount hot : {0, 20, 64, 1000})
      for (const bool graphs : {true, false}) {
        INFO(traits.mix << " " << traits.layers << " layers, " << hot << " tokens stay");
        ExecutorOptions options = keeping(hot);
        options.graphs = graphs;
        CHECK(logits_of(tiny, options) == want);
      }
  }
}

TEST_CASE("A quantized cache leaves the GPU as it is", "[cuda][gpu][hybrid]") {
  const TinyModel tiny = make_tiny_model({.mix = "Q8_0", .layers = 3});
  ExecutorOptions stays = keeping_all(), leaves = keeping(32);
  stays.kv_types = leaves.kv_types = {QuantFormat::kQ8_0, QuantFormat::kQ4_0};
  CHECK(logits_of(tiny, leaves) == logits_of(tiny, stays));
}

TEST_CASE("Cold blocks of 8 or 4 bits stay close", "[cuda][gpu][hybrid]") {
  const TinyModel tiny = make_tiny_model({.mix = "F16", .layers = 3});
  const auto tokens = prompt_of(200, 500);
  const auto want = ref::forward(tiny.model, tokens);
  for (const auto& [type, most] :
       {std::pair{QuantFormat::kQ8_0, 1e-3}, {QuantFormat::kQ4_0, 5e-2}}) {
    CHECK(compare(together(*on_gpu(tiny, keeping(32, type)), tokens), want).mean_kl <= most);
    CHECK(compare(one_by_one(*on_gpu(tiny, keeping(32, type)), tokens), want).mean_kl <= most);
  }
}

TEST_CASE("The host attends to a share of the cold blocks", "[cuda][gpu][hybrid]") {
  for (const TinyTraits& traits : std::vector<TinyTraits>{
           {.mix = "F16", .layers = 3},
           {.architecture = "qwen3", .mix = "F16", .layers = 2, .qk_norm = true},
           {.architecture = "qwen2", .mix = "F16", .layers = 2, .qkv_bias = true},
           {.mix = "F16", .layers = 3, .window = 60}}) {
    const TinyModel tiny = make_tiny_model(traits);
    const auto tokens = prompt_of(200, traits.vocabulary);
    const auto want = reference_logits(tiny, tokens);
    for (const double share : {0.3, 0.6, 1.0})
      for (const bool graphs : {true, false}) {
        ExecutorOptions options = keeping(32);
        options.host_share = share;
        options.threads = 2;
        options.graphs = graphs;
        const auto executor = on_gpu(tiny, options);
        const Agreement a = compare(one_by_one(*executor, tokens), want);
        const double bound = half_bound(traits);
        INFO(traits.architecture << ", the host's share " << share);
        CAPTURE(a.mean_kl, a.nmse, bound);
        CHECK(a.mean_kl <= 1e-3);
        CHECK(a.nmse <= bound);
        CHECK(a.widest_lost_margin <= 6 * std::sqrt(2 * bound));
        // The window of the last tokens may no longer include tokens of the host.
        if (traits.window == 0 || share == 1.0) CHECK(executor->take_bytes().on_host > 0);
      }
  }
}

TEST_CASE("Tokens are the same wherever old ones are attended to", "[cuda][gpu][hybrid]") {
  const TinyModel tiny = make_tiny_model({.mix = "F32", .layers = 3});
  const auto greedy = [&](const ExecutorOptions& options) {
    const auto executor = on_gpu(tiny, options);
    Sampler sampler({});
    std::vector<std::int32_t> ids{
        sampler.next(executor->forward(prompt_of(40, 500), Logits::kLast))};
    while (ids.size() < 300) ids.push_back(executor->decode(ids.back(), sampler));
    return ids;
  };
  const auto want = greedy(keeping_all());
  for (const double share : {0.0, 0.5, 1.0}) {
    ExecutorOptions options = keeping(32);
    options.host_share = share;
    CHECK(greedy(options) == want);
  }
}

TEST_CASE("The host's share of cold blocks is measured", "[cuda][gpu][hybrid]") {
  const ModelSpec spec = make_tiny_model({.layers = 1}).model.spec;
  cuda::Vram vram(0, {});
  const ConcurrentBandwidth both = cuda::measure_kv_split(vram, spec, {}, 2);
  CHECK(both.host.value > 1e8);
  CHECK(both.link.value > 1e8);
  CHECK(vram.held().value == 0);
}

TEST_CASE("A step copies evicted blocks back, and each block is evicted once",
          "[cuda][gpu][hybrid]") {
  const TinyTraits traits{.mix = "F16", .layers = 3};
  const TinyModel tiny = make_tiny_model(traits);
  const auto executor = on_gpu(tiny, keeping(32));
  together(*executor, prompt_of(200, 500));
  executor->take_bytes();
  const std::int32_t token = 3;
  executor->forward({&token, 1}, Logits::kLast);  // token 201: blocks 0 to 8 had left before
  const double of_block =
      double(kBlock * traits.layers * traits.kv_heads * traits.head_dim * 2 * 2);
  MovedBytes moved = executor->take_bytes();
  CHECK(moved.to_gpu == Approx(9 * of_block * (1 + 1. / traits.layers)));  // the first layer twice
  CHECK(moved.to_host == 0);
  executor->forward({&token, 1}, Logits::kLast);
  moved = executor->take_bytes();
  CHECK(moved.to_gpu == 9 * of_block);
  CHECK(moved.to_host == 0);
  one_by_one(*executor, prompt_of(30, 400));
  moved = executor->take_bytes();
  CHECK(moved.to_host == 2 * of_block);
}

TEST_CASE("A traced step records the copies of evicted blocks", "[cuda][gpu][hybrid]") {
  const TinyModel tiny = make_tiny_model({.mix = "F16", .layers = 3});
  const auto executor = on_gpu(tiny, keeping(32));
  together(*executor, prompt_of(200, 500));
  const std::int32_t token = 3;
  executor->forward({&token, 1}, Logits::kLast);  // it finds nothing of the one before
  Recorder recorder;
  executor->record_into(&recorder);
  executor->take_bytes();
  executor->forward({&token, 1}, Logits::kLast);
  double bytes = 0;
  int copies = 0;
  for (const TraceEvent& e : recorder.events())
    if (e.kind == ActivityKind::kFetchKv) {
      CHECK(e.finish_s >= e.start_s);
      bytes += e.bytes;
      ++copies;
    }
  CHECK(copies == 3);
  CHECK(bytes == executor->take_bytes().to_gpu);
}

TEST_CASE("A context truncated within cold blocks can be continued", "[cuda][gpu][hybrid]") {
  const TinyModel tiny = make_tiny_model({.mix = "Q4_K_M", .layers = 3});
  const auto prompt = prompt_of(200, 500), more = prompt_of(50, 300);
  for (const TokenCount cut : {0, 16, 37, 100, 185}) {
    INFO(cut);
    const auto run = [&](const ExecutorOptions& options) {
      const auto executor = on_gpu(tiny, options);
      together(*executor, prompt);
      executor->truncate(cut);
      return one_by_one(*executor, more);
    };
    CHECK(run(keeping(32)) == run(keeping_all()));
  }
}

TEST_CASE("What a short memory does not hold leaves it, and no token is lost",
          "[cuda][gpu][hybrid]") {
  const TinyModel tiny = make_tiny_model({.mix = "Q4_K_M", .layers = 4});
  const auto prompt = prompt_of(40, 500), more = prompt_of(300, 300);
  const auto plenty = on_gpu(tiny, keeping(100'000));
  together(*plenty, prompt);
  ExecutorOptions options = keeping(100'000);
  options.vram_limit = plenty->gpus().front().needed() - plenty->gpus().front().overhead;
  const auto want = one_by_one(*plenty, more);
  const auto tight = on_gpu(tiny, options);
  together(*tight, prompt);
  // Without memory for the ring of two layers the executor cannot continue; with a few blocks of
  // memory it can.
  CHECK_THROWS_AS(one_by_one(*tight, more), ShortOfMemory);
  *options.vram_limit += Bytes{1 << 19};
  const auto enough = on_gpu(tiny, options);
  together(*enough, prompt);
  CHECK(one_by_one(*enough, more) == want);
  CHECK(enough->host().kv.value > 0);
}

TEST_CASE("A block is narrowed to the host's types as new rows are", "[cuda][gpu]") {
  CacheShape shape;
  shape.tokens = shape.block_tokens = 48;
  const CacheData data(shape);
  for (const QuantFormat type : {QuantFormat::kQ8_0, QuantFormat::kQ4_0}) {
    const cuda::Cache from = data.on_device();
    cuda::Cache to = from;
    to.k_type = to.v_type = type;
    to.k_row = to.v_row = int(tensor_bytes(type, std::uint64_t(shape.dim), 1));
    const Stream stream;
    const auto fp16 = data.read();
    const OnDevice<std::byte> block(fp16);
    const OnDevice<std::byte> out(std::size_t(CacheData::kLayers * to.layer_bytes()));
    cuda::quantize_kv_block(stream, from, CacheData::kLayers, block.get(), to, out.get());
    stream.wait();
    const auto rows = out.read();
    std::vector<float> seen(std::size_t(shape.dim));
    for (int head = 0; head < shape.kv_heads; ++head)
      for (int token = 0; token < shape.tokens; ++token) {
        const float* const want = data.key(head, token);
        ref::dequantize(type, rows.data() + to.keys_at(CacheData::kLayer, head) + token * to.k_row,
                        seen);
        double worst = 0;
        for (int i = 0; i < shape.dim; ++i) {
          double most = 0;
          for (int k = i / 32 * 32; k < i / 32 * 32 + 32; ++k)
            most = std::max(most, std::abs(double(want[k])));
          // Rounding is off by half a step, or by a whole one above the highest of 16 levels; the
          // step itself is rounded to FP16.
          const double step = most / (type == QuantFormat::kQ8_0 ? 127 : 8);
          const double levels = type == QuantFormat::kQ8_0 ? 0.5 + 127 * 0x1p-11 : 1 + 8 * 0x1p-11;
          worst = std::max(worst, std::abs(double(seen[std::size_t(i)]) - double(want[i])) /
                                      (step * levels + 1e-6));
        }
        CHECK(worst <= 1);
      }
  }
}
