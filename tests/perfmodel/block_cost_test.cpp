// Cost of batches on kernels whose thread blocks are known, calculated by hand.

#include <algorithm>
#include <string>
#include <vector>

#include "core/hardware/gpu_architecture.hpp"
#include "perfmodel/cost/gpu_cost.hpp"
#include "perfmodel/cost/roofline.hpp"
#include "tests/catch.hpp"
#include "tests/perfmodel/gpu_fixture.hpp"

using namespace rigcast;
using namespace rigcast::fixtures;

namespace {

// Kernels whose thread blocks are known.
constexpr const char* kBlocks = R"(
[blocks]
gemm_tile = 128
tile_rows = 32
tile_tokens = 64
tile_start = "1 us"
fp16_from_batch = 65
token_rows = 32
token_idle = 0.5
launch = 2
gap = 0.5
tile_read = 0.8
vector_bytes = 4
attention_rows = 128
attention_key = "60 ns"
attention_step = "5 ns"
quantized_cache = 0.5
quantized_key = "4 ns"
quantized_start = "1 us"
)";

}  // namespace

TEST_CASE("A block of a batch's attention takes its time for every key", "[gpu]") {
  Scenario s = of_gpu("pascal", std::string(kProfile) + kBlocks);
  const double key = 60e-9, step = 5e-9, convert = 4e-9, keys = 10000;  // of the last token
  OpTraffic t;
  const auto with_tokens = [&](TokenCount tokens) {
    t.attention_flops = 4.0 * double(s.model.heads * s.model.head_dim) * double(tokens) *
                        (keys - double(tokens - 1) / 2);
    t.prompts = 1;
    t.prompt_keys = keys;
    t.flops_of_score = 4.0 * double(s.model.head_dim);
    return seconds(s, t, tokens);
  };
  // However few tokens: as long as products take less.
  const double of_keys = keys * (key + step * double(s.model.head_dim));
  CHECK(with_tokens(16) == Approx(of_keys));
  CHECK(with_tokens(32) == Approx(of_keys));
  s.kv.types = {QuantFormat::kQ8_0, QuantFormat::kQ8_0};
  const double converted = keys * convert * double(s.model.head_dim);  // keys, or values
  CHECK(with_tokens(32) == Approx(of_keys + 2 * converted));
  s.kv.types = {QuantFormat::kQ8_0, QuantFormat::kF16};
  CHECK(with_tokens(32) == Approx(of_keys + converted));
  BlockEfficiency& b = *s.runtime.blocks;
  b.attention_key.value = b.attention_step.value = b.quantized_key.value = Seconds{0};
  const double quantized = with_tokens(32);
  s.kv.types = {QuantFormat::kF16, QuantFormat::kF16};
  CHECK(with_tokens(32) == Approx(2 * with_tokens(16)).epsilon(0.01));  // some see fewer keys
  CHECK(quantized == Approx(with_tokens(32) / 0.5));
}

TEST_CASE("Prompts of one step attend one after the other, each to its own keys", "[gpu]") {
  Scenario s = of_gpu("pascal", std::string(kProfile) + kBlocks);
  const double dim = double(s.model.head_dim_of(0));
  const auto attention = [&](const std::vector<Sequence>& sequences) {
    const Batch batch(sequences, 1);
    const OpTraffic t = cache_traffic(s.model, 0, batch, s.kv.types);
    return gpu_cost(s, 0, t, batch.tokens(), 0).compute.value;
  };
  // A prompt's last token sees all that is cached and the prompt: 60 ns and 5 ns of each element.
  const double of_key = 60e-9 + 5e-9 * dim;
  const Sequence first{9000, 100}, second{100, 50}, third{0, 32};
  CHECK(attention({first}) == Approx(9100 * of_key));
  CHECK(attention({second}) == Approx(150 * of_key));
  CHECK(attention({first, second, third}) == Approx((9100 + 150 + 32) * of_key));
  // Tokens of answers beside them add nothing to that.
  CHECK(attention({first, {5000, 1}, second}) == Approx((9100 + 150) * of_key));
}

TEST_CASE("Prompts with the rows of a block attend by warpgroups", "[gpu]") {
  Scenario s = of_gpu("pascal", std::string(kProfile) + kBlocks + R"(
[blocks.warpgroup_attention]
max_dim = 256
min_keys = 9000
key = "6 ns"
step = "2 ns"
)");
  WarpgroupAttention& warpgroups = *s.runtime.blocks->warpgroup_attention;
  const double dim = double(s.model.head_dim_of(0));
  REQUIRE(dim == 128);
  s.rig.gpus[0].units = int(s.model.kv_heads);
  const auto traffic = [&](TokenCount tokens) {
    return cache_traffic(s.model, 0, Batch(9000, tokens), s.kv.types);
  };
  const auto attention = [&](TokenCount tokens) {
    return gpu_cost(s, 0, traffic(tokens), tokens, 0).compute.value;
  };
  // `quantized`: keys, or values, or both.
  const auto others = [&](TokenCount tokens, double quantized = 0) {
    return Approx(double(9000 + tokens) * (60e-9 + (5e-9 + quantized * 4e-9) * dim));
  };
  const TokenCount block = 128 * s.model.kv_heads / s.model.heads;
  const double of_key = 6e-9 + 2e-9 * dim;
  CHECK(attention(block) == Approx(double(9000 + block) * of_key));
  CHECK(attention(block - 1) == others(block - 1));
  // A unit has one block after the other: ten, and a part of another one.
  CHECK(attention(10 * block + 1) == Approx(11 * (9000 + 5 * double(block) + 1) * of_key));
  s.kv.types = {QuantFormat::kF16, QuantFormat::kQ8_0};
  CHECK(attention(block) == others(block, 1));
  s.kv.types = {QuantFormat::kQ8_0, QuantFormat::kQ8_0};
  CHECK(attention(block) == others(block, 2));
  s.kv.types = {QuantFormat::kF16, QuantFormat::kF16};
  warpgroups.max_dim.value = dim - 1;
  CHECK(attention(block) == others(block));
  warpgroups.max_dim.value = dim;
  warpgroups.min_keys.value = double(9001 + block);
  CHECK(attention(block) == others(block));
  warpgroups.min_keys.value = 9000;
  s.runtime.blocks->architectures = {"hopper"};
  CHECK(attention(block) == others(block));
  s.runtime.blocks->architectures.clear();
  // However fast blocks are, products take as long as the GPU's rate lets them.
  warpgroups.key.value = warpgroups.step.value = Seconds{0};
  CHECK(attention(1024) ==
        Approx(traffic(1024).attention_flops / gemm_rate(s.rig.gpus[0]).value.value));
  s.rig.gpus[0].units.reset();  // not known: as other attention
  CHECK(attention(block) == others(block));
}

TEST_CASE("Latent attention goes over its compressed keys", "[gpu]") {
  Scenario s = of_gpu("pascal", std::string(kProfile) + kBlocks);
  s.model.mla = LatentAttention{};
  s.model.mla->kv_lora_rank = 512;
  s.model.mla->qk_rope_dim = 64;
  const Batch prompt(9000, 100);
  const OpTraffic t = cache_traffic(s.model, 0, prompt, s.kv.types);
  CHECK(t.prompt_keys == 9100);
  // Keys have 576 elements and values 512.
  CHECK(gpu_cost(s, 0, t, 100, 0).compute.value == Approx(9100 * (60e-9 + 5e-9 * 544)));
}

TEST_CASE("Latent attention whose blocks are known has one for some heads and each token",
          "[gpu]") {
  Scenario s = of_gpu("pascal", std::string(kProfile) + kBlocks + R"(
latent_heads = 16
latent_key = "100 ns"
)");
  s.model.mla = LatentAttention{};
  s.model.mla->kv_lora_rank = 512;
  s.model.mla->qk_rope_dim = 64;
  s.model.heads = 40;  // in three blocks
  s.rig.gpus[0].units = 20;
  const auto compute = [&](TokenCount cached, TokenCount tokens) {
    const OpTraffic t = cache_traffic(s.model, 0, Batch(cached, tokens), s.kv.types);
    return gpu_cost(s, 0, t, tokens, 0).compute.value;
  };
  // Twelve blocks run at once, and end with the last token's: it sees 9,004 keys.
  CHECK(compute(9000, 4) == Approx(9004 * 100e-9));
  // 300 blocks on 20 units of two each; a token sees 9,050.5 keys in the mean.
  CHECK(compute(9000, 100) == Approx(9050.5 * 300 / 40 * 100e-9));
}

TEST_CASE("Tokens of a batch pass a recurrent state one by one", "[gpu]") {
  Scenario s = of_gpu("pascal", std::string(kProfile) + kBlocks + "scan_cycles = 0.5\n");
  s.model.recurrent = RecurrentLayers{};
  s.model.recurrent->full_attention_every = 4;
  s.model.recurrent->state_bytes = 4 * 1000;
  const auto scanned = [&](const std::vector<Sequence>& sequences) {
    return cache_traffic(s.model, 0, Batch(sequences, 1), s.kv.types).scanned_values;
  };
  CHECK(scanned({{100, 30}, {0, 20}}) == 50 * 1000);
  CHECK(scanned({{100, 1}, {0, 1}}) == 0);
  OpTraffic t = cache_traffic(s.model, 0, Batch(100, 30), s.kv.types);
  const double with = gpu_cost(s, 0, t, 30, 0).overhead.value;
  t.scanned_values *= 3;
  CHECK(gpu_cost(s, 0, t, 30, 0).overhead.value - with ==
        Approx(2 * 30'000 * 0.5 / unit_rate(s.rig.gpus[0]).value));
}

TEST_CASE("Of a window, a prompt's last token sees its tokens", "[gpu]") {
  ModelSpec model = llama_2_7b();
  model.window = SlidingWindow{};
  model.window->tokens = 512;
  const auto keys = [&](TokenCount cached, TokenCount tokens) {
    double sum = 0;
    for (int l = 0; l < model.layers; ++l)
      if (!model.sees_all_tokens(l))
        sum = cache_traffic(model, l, Batch(cached, tokens), {}).prompt_keys;
    return sum;
  };
  CHECK(keys(100, 50) == 150);
  CHECK(keys(9000, 100) == 512);
}

TEST_CASE("A batch on GPUs of which nobody has measured one takes no less than one of its tokens",
          "[gpu]") {
  const std::string measured = "\narchitectures = [\"hopper\"]\nwrites_out = [\"turing\"]\n";
  const Scenario own = of_gpu("hopper", std::string(kProfile) + kBlocks + measured);
  const Scenario other = of_gpu("pascal", std::string(kProfile) + kBlocks + measured);
  const Scenario turing = of_gpu("turing", std::string(kProfile) + kBlocks + measured);
  const auto time = [](const Scenario& s, TokenCount tokens, bool routed) {
    OpTraffic t = product(double(tokens), QuantFormat::kQ4_K);
    t.matrices = 4;
    t.routed = routed;
    if (routed) t.tokens_per_weight = std::max(1.0, double(tokens) / 4);
    return time_alone(s, gpu_cost(s, 0, t, tokens, 5), 0).value;
  };
  for (const bool routed : {false, true})
    for (TokenCount tokens = 1; tokens < 64; ++tokens)
      CHECK(time(other, tokens + 1, routed) >= (1 - 1e-9) * time(other, tokens, routed));
  // Kernels that were measured are as they are; where weights are written out, they are.
  CHECK(time(own, 2, false) > 2 * time(own, 1, false));
  const double fp16 = 2 * kElements * 2 / kBandwidth;  // written and read
  CHECK(time(turing, 2, false) > fp16);
}

TEST_CASE("A batch's weights are written out as halves, or are multiplied as they lie", "[gpu]") {
  Scenario s = of_gpu("pascal", std::string(kProfile) + kBlocks);
  OpTraffic t = product(1);
  const auto of_tokens = [&](TokenCount tokens, bool routed) {
    OpTraffic own = t;
    own.matmul_flops *= double(tokens);
    own.tokens_per_weight = double(tokens);
    own.routed = routed;
    return gpu_cost(s, 0, own, tokens, 0).compute.value;
  };
  s.runtime.batch.expand.value = 0.001;  // so dear that it tells
  CHECK(of_tokens(65, false) > 100 * of_tokens(64, false));
  CHECK(of_tokens(65, true) < 2 * of_tokens(64, true));
}

TEST_CASE("A batch's kernels follow after gaps, and take no less than their launches", "[gpu]") {
  Scenario s = of_gpu("pascal", std::string(kProfile) + kBlocks);
  const double launch = 3e-6 * 1.25;  // of the backend and the architecture
  constexpr double kKernels = 7;
  const auto overhead = [&](const OpTraffic& t, bool in_graph) {
    return gpu_cost(s, 0, t, 64, kKernels, in_graph).overhead.value;
  };
  const OpTraffic none;  // kernels that take no time
  CHECK(overhead(none, true) == Approx(kKernels * 0.5 * launch));
  CHECK(overhead(none, false) == Approx(kKernels * 2 * launch));
  OpTraffic much;  // which takes longer than all launches
  much.activation_bytes = 1e9;
  CHECK(overhead(much, true) == Approx(kKernels * 0.5 * launch));
  CHECK(overhead(much, false) == Approx(kKernels * 0.5 * launch));
}

TEST_CASE("Tiles read quantized weights at a share of the rate, where they are read as they lie",
          "[gpu]") {
  Scenario s = of_gpu("pascal", std::string(kProfile) + kBlocks);
  const auto read = [&](const OpTraffic& t, TokenCount tokens) {
    return gpu_cost(s, 0, t, tokens, 0).equivalent_bytes.value;
  };
  const OpTraffic quants = product(1), floats = product(1, QuantFormat::kF16);
  const double weights = read(quants, 100);
  CHECK(read(quants, 64) == Approx(weights / 0.8));
  CHECK(read(floats, 64) == Approx(read(floats, 100)));
  OpTraffic experts = quants;
  experts.routed = true;
  CHECK(read(experts, 100) == Approx(weights / 0.8));
}

TEST_CASE("Sequences with one new token attend as one alone does, beside prompts too", "[gpu]") {
  Scenario s = of_gpu("pascal", std::string(kProfile) + kBlocks);
  OpTraffic t;
  t.attention_flops = t.single_flops = 4e9;
  t.single_tokens = 4;
  const OpCost four = gpu_cost(s, 0, t, 4, 0);
  CHECK(four.compute.value == 0);
  CHECK(four.overhead.value == Approx(gpu_cost(s, 0, t, 1, 0).overhead.value));
  // A prompt of 16 tokens beside them takes what it takes alone.
  OpTraffic prompt;
  prompt.attention_flops = 4.0 * double(s.model.heads * s.model.head_dim) * 16 * 1000;
  prompt.prompts = 1;
  prompt.prompt_keys = 1008;
  prompt.flops_of_score = 4.0 * double(s.model.head_dim);
  t += prompt;
  REQUIRE(gpu_cost(s, 0, prompt, 16, 0).compute.value > 0);
  CHECK(gpu_cost(s, 0, t, 20, 0).compute.value ==
        Approx(gpu_cost(s, 0, prompt, 16, 0).compute.value));
}

TEST_CASE("Attention of single tokens has blocks for the KV heads of its own layer", "[gpu]") {
  Scenario s = of_gpu("pascal", std::string(kProfile) + kBlocks + "single_start = \"10 us\"\n");
  s.rig.gpus[0].units = 4;
  s.model.kv_heads = 8;
  s.model.window = SlidingWindow{};
  s.model.window->tokens = 512;
  s.model.window->full_every = 2;
  s.model.window->full_kv_heads = 1;
  const Batch four({{100, 1}, {100, 1}, {100, 1}, {100, 1}}, 1);
  const auto start = [&](int layer) {
    OpTraffic t = cache_traffic(s.model, layer, four, s.kv.types);
    const double with = gpu_cost(s, 0, t, 4, 0).overhead.value;
    t.single_tokens = 0;
    return with - gpu_cost(s, 0, t, 4, 0).overhead.value;
  };
  CHECK(start(0) == Approx(4 * 10e-6));  // 32 blocks on four units of two each
  CHECK(start(1) == Approx(10e-6));      // four blocks
}

TEST_CASE("Experts of a long batch are multiplied by parts", "[gpu]") {
  Scenario s = of_gpu("pascal", std::string(kProfile) + kBlocks + "expert_half_rate_batch = 100\n");
  s.model = qwen3_30b_a3b();
  const auto compute = [&](TokenCount tokens) {
    OpTraffic t = product(double(tokens) / 16, QuantFormat::kQ4_K);
    t.routed = true;
    return gpu_cost(s, 0, t, tokens, 0).compute.value;
  };
  CHECK(compute(2048) == Approx(2 * compute(1024)));
  CHECK(compute(1024) < 1.9 * compute(512));  // wider groups
}

namespace {

// Kernels that were measured on Hopper; of Turing it is known that it has none for quantized
// weights.
Scenario measured_on_hopper(const char* architecture) {
  Scenario s = of_gpu(architecture, std::string(kProfile) + kBlocks +
                                        "architectures = [\"hopper\"]\n"
                                        "writes_out = [\"turing\"]\n"
                                        "other_tiles = 0.5\n"
                                        "half_rate_flops = 4000\n");
  GpuPart& card = s.rig.gpus.front();
  card.fp16_tensor = {40_TFLOPs, SourceKind::kSpec, "a test"};
  card.fp16_tensor_fp16acc = {80_TFLOPs, SourceKind::kSpec, "a test"};
  return s;
}

}  // namespace

TEST_CASE("Products have sums in F32, however fast sums in FP16 would be", "[gpu]") {
  const Scenario s = measured_on_hopper("ampere");
  const OpTraffic t = product(4096, QuantFormat::kF16);
  const double floor = t.matmul_flops / 40e12;
  CHECK(seconds(s, t, 4096) >= floor);
  Scenario without = s;
  without.rig.gpus.front().fp16_tensor_fp16acc.reset();
  CHECK(seconds(without, t, 4096) == Approx(seconds(s, t, 4096)));
}

TEST_CASE("A longer batch of floats takes no less time", "[gpu]") {
  Scenario s = measured_on_hopper("hopper");
  s.rig.gpus[0].units = 132;
  OpTraffic t = product(1, QuantFormat::kF16);
  t.products[WeightGroup::kIn] = {6144, 6144ull * 4096, QuantFormat::kF16};
  double before = 0;
  for (TokenCount tokens = 65; tokens <= 1100; ++tokens) {
    OpTraffic own = t;
    own.matmul_flops *= double(tokens);
    own.tokens_per_weight = double(tokens);
    const double now = seconds(s, own, tokens);
    INFO(tokens);
    CHECK(now >= before * (1 - 1e-9));
    before = now;
  }
}

TEST_CASE("Without kernels for a batch's quantized weights, experts take token after token",
          "[gpu]") {
  const auto time = [](const char* architecture, TokenCount tokens) {
    Scenario s = measured_on_hopper(architecture);
    s.model = qwen3_30b_a3b();
    OpTraffic t = product(double(tokens) / 16, QuantFormat::kQ4_K);
    t.routed = true;
    return time_alone(s, gpu_cost(s, 0, t, tokens, 2), 0).value;
  };
  CHECK(time("turing", 40) == Approx(2 * time("turing", 20)));
  CHECK(time("ampere", 40) < 1.5 * time("ampere", 20));
}

TEST_CASE("Tiles of other GPUs are slower, and reach half of their rate by their own units",
          "[gpu]") {
  const auto compute = [](const Scenario& s, QuantFormat format) {
    return seconds(s, product(32, format), 32);
  };
  using enum QuantFormat;
  const Scenario hopper = measured_on_hopper("hopper"), ampere = measured_on_hopper("ampere");
  // Formats without tiles of Hopper's have the kernels of all.
  CHECK(compute(hopper, kQ3_K) == Approx(2 * compute(hopper, kQ4_K)));
  CHECK(compute(ampere, kQ3_K) == Approx(compute(ampere, kQ4_K)));
  Scenario alike = ampere;  // a GPU with as many FLOPs a cycle
  const GpuPart& card = alike.rig.gpus.front();
  alike.runtime.blocks->half_rate_flops->value = 40e12 / unit_rate(card).value;
  CHECK(compute(alike, kQ4_K) == Approx(2 * compute(hopper, kQ4_K)));
  alike.runtime.blocks->half_rate_flops->value *= 4;
  CHECK(compute(alike, kQ4_K) < 2 * compute(hopper, kQ4_K));
}
