#include "core/model/traffic.hpp"

#include <cmath>
#include <vector>

#include "tests/catch.hpp"
#include "tests/core/model_fixtures.hpp"
#include "tests/decode_traffic.hpp"

using namespace rigcast;
using namespace rigcast::fixtures;

namespace {

// One layer that can be counted by hand: hidden 64, 4 query and 2 KV heads of 16, FFN 128.
ModelSpec tiny(int layers = 1) { return dense("llama", {layers, 64, 4, 2, 16, 128, 100}); }

TensorTable table_of(const ModelSpec& model, const char* mix = "F16") {
  const auto rule = QuantMix::from_name(mix);
  REQUIRE(rule);
  auto table = make_tensor_table(model, *rule);
  REQUIRE(table);
  return *std::move(table);
}

constexpr KvTypes kHalf{};

}  // namespace

TEST_CASE("A projection moves q, k, v, output and the norm, once whatever the batch", "[traffic]") {
  const ModelSpec m = tiny();
  const TensorTable table = table_of(m);
  // q and o are 64 x 64, k and v 64 x 32, two bytes each; the norm is 64 of four bytes.
  const double bytes = 2.0 * (2 * 64 * 64 + 2 * 64 * 32) + 4 * 64;
  for (const TokenCount n : {1, 7, 512}) {
    const OpTraffic t = projection_traffic(m, table, 0, n);
    CHECK(t.weight_bytes() == bytes);
    CHECK(t.matmul_flops == Approx(2.0 * (2 * 64 * 64 + 2 * 64 * 32) * double(n)).epsilon(0.006));
    CHECK(t.activation_bytes == 2.0 * 4 * 64 * double(n));
    CHECK(t.matrices == 4);
    CHECK(t.kv_read_bytes == 0);
  }
}

TEST_CASE("A dense FFN moves gate, up, down and its norm", "[traffic]") {
  const OpTraffic t = ffn_traffic(tiny(), table_of(tiny()), 0, 1);
  CHECK(t.weight_bytes() == 2.0 * 3 * 64 * 128 + 4 * 64);
  CHECK(t.matmul_flops == Approx(2.0 * 3 * 64 * 128).epsilon(0.006));
  CHECK(t.matrices == 3);
}

TEST_CASE("The head moves the output matrix once, and one row of logits a row", "[traffic]") {
  const OpTraffic t = head_traffic(tiny(), table_of(tiny()), 3);
  CHECK(t.weight_bytes() == 2.0 * 64 * 100 + 4 * 64);
  CHECK(t.activation_bytes == 3 * 4.0 * (64 + 100));
  CHECK(logits_bytes(tiny()) == 400_B);
  CHECK(hidden_bytes(tiny()) == 256_B);
}

TEST_CASE("Attention reads every cached token and writes the new ones", "[traffic]") {
  // A token's keys and values are 2 x 2 heads x 16 x 2 B = 128 B.
  const OpTraffic one = cache_traffic(tiny(), 0, {99, 1}, kHalf);
  CHECK(one.kv_read_bytes == 100 * 128.0);
  CHECK(one.kv_write_bytes == 128.0);
  // Scores and values: two products of 2 FLOPs over 100 cells, 4 heads, 16 wide.
  CHECK(one.attention_flops == 2.0 * 2 * 100 * 4 * 16);
  CHECK(one.weight_bytes() == 0);
}

TEST_CASE("A batch reads the cache once, and its tokens see one more cell each", "[traffic]") {
  const OpTraffic t = cache_traffic(tiny(), 0, {10, 4}, kHalf);
  CHECK(t.kv_read_bytes == 14 * 128.0);
  CHECK(t.kv_write_bytes == 4 * 128.0);
  CHECK(t.attention_flops == 2.0 * 2 * (11 + 12 + 13 + 14) * 4 * 16);
}

TEST_CASE("Cells are read in whole multiples of the runtime's padding", "[traffic]") {
  CHECK(read_cells(0, 256) == 0);
  CHECK(read_cells(1, 256) == 256);
  CHECK(read_cells(256, 256) == 256);
  CHECK(read_cells(257, 256) == 512);
  CHECK(read_cells(257, 1) == 257);
  const OpTraffic t = cache_traffic(tiny(), 0, {256, 1, 256}, kHalf);
  CHECK(t.kv_read_bytes == 512 * 128.0);
}

TEST_CASE("A sliding window bounds what a token reads", "[traffic]") {
  ModelSpec m = tiny(2);
  m.window = SlidingWindow{.tokens = 8, .full_every = 2};
  const Batch late{99, 1};
  CHECK(cache_traffic(m, 0, late, kHalf).kv_read_bytes == 8 * 128.0);
  CHECK(cache_traffic(m, 1, late, kHalf).kv_read_bytes == 100 * 128.0);
  CHECK(cache_traffic(m, 0, {3, 1}, kHalf).kv_read_bytes == 4 * 128.0);
}

TEST_CASE("In a batch the first token's window reaches furthest back", "[traffic]") {
  ModelSpec m = tiny();
  m.window = SlidingWindow{.tokens = 8, .full_every = 0};
  // Tokens 101 to 104 see cells 94 to 104: 8 + 3 of them, 8 each.
  const OpTraffic t = cache_traffic(m, 0, {100, 4}, kHalf);
  CHECK(t.kv_read_bytes == 11 * 128.0);
  CHECK(t.attention_flops == 2.0 * 2 * (4 * 8) * 4 * 16);
  // From the start 1, 2, ... 8, 8, 8, 8 of them.
  const OpTraffic prompt = cache_traffic(m, 0, {0, 11}, kHalf);
  CHECK(prompt.kv_read_bytes == 11 * 128.0);
  CHECK(prompt.attention_flops == Approx(2.0 * 2 * (36 + 3 * 8) * 4 * 16));
}

TEST_CASE("What the mask hides is counted where kernels compute it", "[traffic]") {
  const double cell = 2.0 * 2 * 4 * 16;  // FLOPs of a token
  const OpTraffic full = cache_traffic(tiny(), 0, {10, 4, 16}, kHalf);
  CHECK(full.causal_flops == full.attention_flops);
  CHECK(full.cell_flops == cell * 4 * 16);
  ModelSpec m = tiny();
  m.window = SlidingWindow{.tokens = 8, .full_every = 0};
  Batch batch{100, 4, 16};
  batch.window_cells = 16;
  const OpTraffic windowed = cache_traffic(m, 0, batch, kHalf);
  CHECK(windowed.attention_flops == cell * 4 * 8);
  CHECK(windowed.causal_flops == cell * 4 * 16);  // in no order that would help
  CHECK(windowed.cell_flops == cell * 4 * 16);
  // Until its cells are full they are in order.
  Batch early{8, 4, 16};
  early.window_cells = 16;
  CHECK(cache_traffic(m, 0, early, kHalf).causal_flops == cell * (9 + 10 + 11 + 12));
  CHECK(cache_traffic(m, 0, early, kHalf).attention_flops == cell * 4 * 8);
}

TEST_CASE("Layers with wider heads read and compute by their own width", "[traffic]") {
  ModelSpec m = tiny(2);
  m.window = SlidingWindow{.tokens = 8, .full_every = 2, .full_head_dim = 32, .full_kv_heads = 1};
  const OpTraffic t = cache_traffic(m, 1, {99, 1}, kHalf);
  CHECK(t.kv_read_bytes == 100 * 2.0 * 1 * 32 * 2);
  CHECK(t.attention_flops == 2.0 * 2 * 100 * 4 * 32);
}

TEST_CASE("A layer that shares an earlier layer's cache reads it and writes nothing", "[traffic]") {
  ModelSpec m = tiny(4);
  m.shared_kv_layers = 2;
  m.window = SlidingWindow{.tokens = 8, .full_every = 2};
  const Batch b{99, 1};
  const OpTraffic windowed = cache_traffic(m, 2, b, kHalf);
  CHECK(windowed.kv_read_bytes == 8 * 128.0);
  CHECK(windowed.kv_write_bytes == 0);
  const OpTraffic full = cache_traffic(m, 3, b, kHalf);
  CHECK(full.kv_read_bytes == 100 * 128.0);
  CHECK(full.kv_write_bytes == 0);
  CHECK(full.attention_flops > windowed.attention_flops);
}

TEST_CASE("A recurrent layer moves its state both ways; its attention layers the cache",
          "[traffic]") {
  ModelSpec m = tiny(2);
  m.recurrent =
      RecurrentLayers{.full_attention_every = 2, .attention_layers = {}, .state_bytes = 1000};
  const Batch b{99, 1};
  const OpTraffic mixer = cache_traffic(m, 0, b, kHalf);
  CHECK(mixer.kv_read_bytes == 1000);
  CHECK(mixer.kv_write_bytes == 1000);
  CHECK(mixer.attention_flops == 0);
  CHECK(cache_traffic(m, 1, b, kHalf).kv_read_bytes == 100 * 128.0);
}

TEST_CASE("Attention and mixer side by side move both", "[traffic]") {
  ModelSpec m = tiny();
  m.recurrent = RecurrentLayers{.attention_layers = {}, .parallel = true, .state_bytes = 1000};
  const OpTraffic t = cache_traffic(m, 0, {99, 1}, kHalf);
  CHECK(t.kv_read_bytes == 100 * 128.0 + 1000);
  CHECK(t.kv_write_bytes == 128.0 + 1000);
}

TEST_CASE("A layer of experts alone has no cache and no state", "[traffic]") {
  ModelSpec m = with_experts(tiny(2), 4, 1, 32);
  m.pattern = "ME";
  m.recurrent = RecurrentLayers{.attention_layers = {}, .state_bytes = 1000};
  const Batch b{99, 1};
  CHECK(cache_traffic(m, 0, b, kHalf).kv_read_bytes == 1000);
  CHECK(cache_traffic(m, 1, b, kHalf).total() == 0_B);
}

TEST_CASE("Latent attention reads one compressed row a token for all heads", "[traffic]") {
  const ModelSpec m = deepseek_v2_lite();
  const OpTraffic t = cache_traffic(m, 5, {999, 1}, kHalf);
  CHECK(t.kv_read_bytes == 1000.0 * (512 + 64) * 2);
  CHECK(t.kv_write_bytes == (512 + 64) * 2.0);
  CHECK(t.attention_flops == 2.0 * 16 * (512 + 64 + 512) * 1000);
}

TEST_CASE("Heads of more than 256 dimensions are wide, and stay so in a sum", "[traffic]") {
  const Batch b{99, 1};
  CHECK_FALSE(cache_traffic(gemma_2_2b(), 0, b, kHalf).wide_heads);  // 256
  CHECK(cache_traffic(deepseek_v2_lite(), 0, b, kHalf).wide_heads);  // rows of 512 + 64
  ModelSpec m = tiny(2);
  m.window = SlidingWindow{.tokens = 8, .full_every = 2, .full_head_dim = 257, .full_kv_heads = 1};
  CHECK_FALSE(cache_traffic(m, 0, b, kHalf).wide_heads);
  CHECK(cache_traffic(m, 1, b, kHalf).wide_heads);
  OpTraffic sum = cache_traffic(m, 1, b, kHalf);
  sum += cache_traffic(m, 0, b, kHalf);
  CHECK(sum.wide_heads);
  m.recurrent =
      RecurrentLayers{.full_attention_every = 4, .attention_layers = {}, .state_bytes = 1000};
  CHECK_FALSE(cache_traffic(m, 1, b, kHalf).wide_heads);  // a state has no heads
}

TEST_CASE("n tokens touch E (1 - (1 - k/E)^n) of E experts", "[traffic]") {
  CHECK(expected_experts(8, 2, 1) == Approx(2.0));
  CHECK(expected_experts(8, 2, 2) == Approx(8 * (1 - 0.75 * 0.75)));
  CHECK(expected_experts(128, 8, 32) == Approx(128 * (1 - std::pow(120.0 / 128, 32))));
  CHECK(expected_experts(8, 8, 1) == Approx(8.0));
  CHECK(expected_experts(8, 2, 0) == 0.0);
  CHECK(expected_experts(8, 2, 1e6) == Approx(8.0));
}

TEST_CASE("A batch reads the experts it touches and computes those it chose", "[traffic]") {
  const ModelSpec m = with_experts(tiny(), 8, 2, 32);
  const TensorTable table = table_of(m);
  const double one = 2.0 * 3 * 64 * 32;  // gate, up and down of an expert, in bytes
  CHECK(experts_traffic(m, table, 0, 1).weight_bytes() == Approx(2 * one));
  CHECK(experts_traffic(m, table, 0, 2).weight_bytes() == Approx(3.5 * one));
  CHECK(experts_traffic(m, table, 0, 1).matmul_flops == Approx(2.0 * 2 * 3 * 64 * 32));
  CHECK(experts_traffic(m, table, 0, 10).matmul_flops == Approx(20.0 * 2 * 3 * 64 * 32));
  CHECK(experts_traffic(tiny(), table_of(tiny()), 0, 5).total() == 0_B);
}

TEST_CASE("A decode step reads exactly what the tensor table calls active", "[traffic]") {
  const std::vector<ModelSpec> models = {
      llama_2_7b(),  llama_3_2_3b(), qwen2_5_7b(), mixtral_8x7b(),     qwen3_30b_a3b(),
      gpt_oss_20b(), phi_4(),        gemma_2_2b(), deepseek_v2_lite(), falcon_7b()};
  for (const ModelSpec& m : models) {
    for (const char* mix : {"F16", "Q8_0", "Q4_K_M"}) {
      const TensorTable table = table_of(m, mix);
      const OpTraffic t = decode_traffic(m, table, {100, 1}, kHalf);
      INFO(m.architecture << " " << mix);
      CHECK(t.weight_bytes() == Approx(table.active_bytes(m)).epsilon(1e-12));
    }
  }
}

TEST_CASE("A decode step's KV is what a token takes, times the tokens seen", "[traffic]") {
  const ModelSpec m = llama_3_8b();
  const OpTraffic t = decode_traffic(m, table_of(m), {1023, 1}, kHalf);
  // 32 layers x 2 x 8 heads x 128 x 2 B = 128 KiB a token.
  CHECK(t.kv_read_bytes == 1024.0 * 131072);
  CHECK(t.kv_write_bytes == 131072.0);
  // Twice the weights that are read, in FLOPs: 7.5 B parameters without the embedding.
  CHECK(t.matmul_flops == Approx(15.0e9).epsilon(0.01));
}

TEST_CASE("Half as wide a KV type moves just over half of the bytes", "[traffic]") {
  const KvTypes q8{QuantFormat::kQ8_0, QuantFormat::kQ8_0};
  const Batch b{999, 1};
  const double f16 = cache_traffic(llama_3_8b(), 0, b, kHalf).kv_read_bytes;
  CHECK(cache_traffic(llama_3_8b(), 0, b, q8).kv_read_bytes == Approx(f16 * 8.5 / 16));
}

TEST_CASE("Traffic adds up by its parts", "[traffic]") {
  const ModelSpec m = tiny();
  const TensorTable table = table_of(m);
  const Batch b{10, 2};
  OpTraffic sum = projection_traffic(m, table, 0, 2);
  sum += cache_traffic(m, 0, b, kHalf);
  const OpTraffic whole = attention_traffic(m, table, 0, b, kHalf);
  CHECK(whole.total() == sum.total());
  CHECK(whole.matmul_flops == sum.matmul_flops);
  CHECK(whole.total().value ==
        whole.weight_bytes() + whole.kv_read_bytes + whole.kv_write_bytes + whole.activation_bytes);
}

TEST_CASE("Sequences of a batch share its weights, and each reads a cache of its own") {
  const ModelSpec m = tiny();
  const TensorTable table = table_of(m);
  const Batch two{{{99, 1}, {199, 3}}, 1};
  CHECK(two.cached() == 298);
  CHECK(two.tokens() == 4);
  const OpTraffic first = cache_traffic(m, 0, {99, 1}, kHalf);
  const OpTraffic second = cache_traffic(m, 0, {199, 3}, kHalf);
  const OpTraffic both = cache_traffic(m, 0, two, kHalf);
  CHECK(both.kv_read_bytes == first.kv_read_bytes + second.kv_read_bytes);
  CHECK(both.kv_write_bytes == first.kv_write_bytes + second.kv_write_bytes);
  CHECK(both.attention_flops == first.attention_flops + second.attention_flops);
  const OpTraffic alone = attention_traffic(m, table, 0, {99, 1}, kHalf);
  const OpTraffic all = attention_traffic(m, table, 0, two, kHalf);
  CHECK(all.weight_bytes() == alone.weight_bytes());
  CHECK(all.matmul_flops == 4 * alone.matmul_flops);
}
