// Wide tiles of a batch, calculated by hand.

#include "perfmodel/blocks/wide_tiles.hpp"

#include "perfmodel/cost/block_attention.hpp"
#include "tests/catch.hpp"
#include "tests/perfmodel/gpu_fixture.hpp"

using namespace rigcast;
using namespace rigcast::fixtures;

namespace {

template <class T>
Sourced<T> figure(T value) {
  Sourced<T> f;
  f.value = value;
  return f;
}

WideTiles tiles() {
  WideTiles w;
  w.until_batch = figure(1024.0);
  w.rows = figure(128.0);
  w.tokens = figure(256.0);
  w.start = figure(Seconds{10e-6});
  w.rate = figure(0.5);
  w.half_rate = figure(0.25);
  w.single_rate = figure(0.4);
  return w;
}

OpTraffic product_of(std::uint64_t rows, std::uint64_t columns, QuantFormat format) {
  OpTraffic t;
  t.products[WeightGroup::kIn] = {rows, rows * columns, format};
  t.weight_bytes_by_format[std::size_t(format)] = 1;
  return t;
}

BlockEfficiency blocks_with_tiles() {
  BlockEfficiency b;
  b.fp16_from_batch = figure(65.0);
  b.wide = tiles();
  return b;
}

// Blocks of 128 rows, which take 30 ns a key.
Scenario with_attention_blocks() {
  Scenario s = of_gpu("pascal", std::string(kProfile));
  BlockEfficiency& b = s.runtime.blocks.emplace();
  b.attention_rows = figure(128.0);
  b.attention_key = figure(Seconds{30e-9});
  b.attention_step = figure(Seconds{});
  b.quantized_cache = figure(1.0);
  return s;
}

// A prompt whose last token sees 8,192 keys of 128 elements.
OpTraffic prompt_of_8192_keys() {
  OpTraffic t;
  t.attention_flops = 1;
  t.prompts = 1;
  t.prompt_keys = 8192;
  t.flops_of_score = 4.0 * 128;
  return t;
}

}  // namespace

TEST_CASE("Wide tiles take rounds of blocks", "[gpu]") {
  WideTilesGpu gpu{100, {1e15}, 1};
  const auto time = [&](std::uint64_t rows, std::uint64_t columns, double tokens) {
    return wide_tiles_time(tiles(), product_of(rows, columns, QuantFormat::kQ4_K), tokens, gpu);
  };
  // 200 blocks of 128 rows and 256 tokens are two rounds of a hundred units.
  const double of_block = 2.0 * 128 * 256 * 4096, unit = 0.5e15 / 100;
  const WideTilesTime two = time(200 * 128, 4096, 200);
  CHECK(two.compute.value == Approx(2 * of_block / unit));
  CHECK(two.start.value == Approx(20e-6));
  CHECK(time(100 * 128, 4096, 512).compute.value == Approx(2 * of_block / unit));
  CHECK(time(100 * 128, 4096, 512).start.value == Approx(20e-6));
  CHECK(time(101 * 128, 4096, 512).start.value == Approx(30e-6));
  // Of 25 blocks, four share the columns of each.
  CHECK(time(25 * 128, 4096, 256).compute.value == Approx(of_block / 4 / unit));
  CHECK(time(25 * 128, 4096, 256).start.value == Approx(10e-6));
  WideTiles sharing = tiles();
  sharing.sharing = figure(Seconds{2e-6});
  CHECK(wide_tiles_time(sharing, product_of(25 * 128, 4096, QuantFormat::kQ4_K), 256, gpu)
            .start.value == Approx(16e-6));
  // Two share 1,024 columns, if units had nothing otherwise, and 5,120 in parts of 256.
  CHECK(time(25 * 128, 1024, 256).compute.value == Approx(of_block / 8 / unit));
  CHECK(time(25 * 128, 5120 - 256, 256).compute.value == Approx(of_block * 5 / 16 / unit));
  CHECK(time(80 * 128, 1024, 128).compute.value == Approx(of_block / 8 / (0.25e15 / 200)));
  // Two blocks of 128 tokens at once take twice as long at half the rate.
  CHECK(time(200 * 128, 4096, 128).compute.value == Approx(of_block / (0.25e15 / 100)));
  CHECK(time(200 * 128, 4096, 128).start.value == 0);
  // Of formats of more bits a unit has one, which takes another share of the rate.
  using enum QuantFormat;
  OpTraffic large = product_of(100 * 128, 4096, kQ6_K);
  const auto of_single = [&] { return wide_tiles_time(tiles(), large, 100, gpu); };
  CHECK(of_single().compute.value == Approx(of_block / 2 / (0.4e15 / 100)));
  CHECK(of_single().start.value == Approx(10e-6));
  WideTiles slow = tiles();
  slow.single_rate = figure(0.1);  // such a block does no more than one of all tokens
  CHECK(wide_tiles_time(slow, large, 100, gpu).compute.value == Approx(of_block / (0.5e15 / 100)));
  large.products[WeightGroup::kIn].format = kQ4_K;  // as the first of several
  large.products[WeightGroup::kIn].several_formats = true;
  CHECK(of_single().compute.value == Approx(of_block / 2 / (0.4e15 / 100)));
  large.weight_bytes_by_format[std::size_t(kQ6_K)] = 0;
  CHECK(of_single().compute.value == Approx(of_block / 4 / (0.25e15 / 200)));
  CHECK(of_single().start.value == 0);
  // At most eight share: of 50 blocks at once, 40 of five.
  gpu.units = 50;
  CHECK(time(5 * 128, 16384, 256).compute.value ==
        Approx(2.0 * 128 * 256 * 16384 / 8 / (0.5e15 / 50)));
  // Where units are unknown, all are busy with one round.
  gpu.units = 0;
  CHECK(time(200 * 128, 4096, 200).compute.value == Approx(200 * of_block / 0.5e15));
  CHECK(time(200 * 128, 4096, 200).start.value == Approx(10e-6));
  // More power than most GPUs have does not pass the rate.
  gpu = {100, {1e15}, 4};
  CHECK(time(100 * 128, 4096, 256).compute.value == Approx(of_block / (1e15 / 100)));
}

TEST_CASE("Wide tiles have weights of some formats, in whole parts, and batches of a size",
          "[gpu]") {
  using enum QuantFormat;
  const BlockEfficiency blocks = blocks_with_tiles();
  CHECK(has_wide_tiles(blocks, product_of(512, 4096, kQ4_K), 65));
  CHECK(has_wide_tiles(blocks, product_of(512, 4096, kQ8_0), 1024));
  CHECK(!has_wide_tiles(blocks, product_of(512, 4096, kQ4_K), 64));
  CHECK(!has_wide_tiles(blocks, product_of(512, 4096, kQ4_K), 1025));
  CHECK(!has_wide_tiles(blocks, product_of(512, 2880, kQ4_K), 512));
  CHECK(!has_wide_tiles(blocks, product_of(512, 4096, kIQ2_XS), 512));
  OpTraffic experts = product_of(512, 4096, kQ4_K);
  experts.routed = true;
  CHECK(!has_wide_tiles(blocks, experts, 512));
  CHECK(!has_wide_tiles({}, product_of(512, 4096, kQ4_K), 512));
  // An FFN's width may be any number of units: gate and up write whole parts.
  OpTraffic ffn = product_of(2 * 13696, 4096, kQ4_K);
  ffn.products[WeightGroup::kOut] = {4096, 4096ull * 13696, kQ5_0};
  CHECK(has_wide_tiles(blocks, ffn, 512));
  ffn.matrices = 4;  // an attention's output, of half as many columns as q, k and v have rows
  CHECK(!has_wide_tiles(blocks, ffn, 512));
  // Blocks do not share the columns of gate and up.
  const WideTilesGpu gpu{1000, {1e15}, 1};
  const double whole = 2.0 * 128 * 256 * 4096 / (0.5e15 / 1000);
  OpTraffic gated = product_of(2 * 4096, 4096, kQ4_K);
  CHECK(wide_tiles_time(tiles(), gated, 256, gpu).compute.value == Approx(whole * 2 / 16));
  gated.products[WeightGroup::kOut] = {4096, 4096ull * 4096, kQ4_K};
  CHECK(wide_tiles_time(tiles(), gated, 256, gpu).compute.value == Approx(whole * (1 + 2.0 / 16)));
  OpTraffic narrow = product_of(2 * 224, 4096, kQ4_K);
  narrow.products[WeightGroup::kOut] = {4096, 4096ull * 224, kQ5_0};
  CHECK(!has_wide_tiles(blocks, narrow, 512));
}

TEST_CASE("A router beside an FFN that all tokens pass leaves it its wide tiles", "[gpu]") {
  using enum QuantFormat;
  OpTraffic ffn = product_of(2 * 3072, 2560, kQ4_K);
  ffn.products[WeightGroup::kOut] = {2560, 2560ull * 3072, kQ4_K};
  ffn.matrices = 3;
  const WideTilesGpu gpu{1000, {1e15}, 1};
  const double alone = wide_tiles_time(tiles(), ffn, 256, gpu).compute.value;
  ffn.products[WeightGroup::kOther] = {64, 64ull * 2560, kF32};
  ffn.weight_bytes_by_format[std::size_t(kF32)] = 1;
  ffn.matrices = 4;
  CHECK(has_wide_tiles(blocks_with_tiles(), ffn, 256));
  CHECK(wide_tiles_time(tiles(), ffn, 256, gpu).compute.value == Approx(alone));
}

TEST_CASE("The share of weights that no tiles of Hopper have is told by bytes", "[gpu]") {
  using enum QuantFormat;
  OpTraffic t;
  CHECK(untiled_share(t) == 0);
  t.weight_bytes_by_format[std::size_t(kQ4_K)] = 300;
  t.weight_bytes_by_format[std::size_t(kF32)] = 500;
  CHECK(untiled_share(t) == 0);
  t.weight_bytes_by_format[std::size_t(kQ3_K)] = 100;
  CHECK(untiled_share(t) == Approx(0.25));
}

TEST_CASE("Warpgroups attend over a quantized cache as fast as it is converted", "[gpu]") {
  Scenario s = with_attention_blocks();
  BlockEfficiency& b = *s.runtime.blocks;
  b.quantized_key = figure(Seconds{1e-9});
  b.warpgroup_attention.emplace();
  WarpgroupAttention& w = *b.warpgroup_attention;
  w.max_dim = figure(256.0);
  w.min_keys = figure(256.0);
  w.key = figure(Seconds{10e-9});
  w.step = figure(Seconds{});
  const OpTraffic t = prompt_of_8192_keys();
  const auto of_key = [&](QuantFormat keys, QuantFormat values) {
    s.kv.types = {keys, values};
    return block_attention_time(s, t, 128,
                                {Seconds{}, Seconds{}, 1000, Seconds{}, BytesPerSecond{1e12}})
               .value /
           8192;
  };
  using enum QuantFormat;
  CHECK(of_key(kF16, kF16) == Approx(10e-9));
  // Without them: 30 ns, and 1 ns for each element of a key and a value.
  CHECK(of_key(kQ8_0, kQ8_0) == Approx(286e-9));
  w.convert = figure(Seconds{0.1e-9});
  CHECK(of_key(kQ8_0, kQ4_0) == Approx(25.6e-9));
  CHECK(of_key(kQ8_0, kF16) == Approx(158e-9));
  w.convert = figure(Seconds{0.01e-9});  // faster than the products
  CHECK(of_key(kQ4_0, kQ4_0) == Approx(10e-9));
}

TEST_CASE("Blocks share the keys of few tokens' attention, and write what they find", "[gpu]") {
  Scenario s = with_attention_blocks();
  BlockEfficiency& b = *s.runtime.blocks;
  const double heads = double(s.model.heads), kv_heads = double(s.model.kv_heads);
  const OpTraffic t = prompt_of_8192_keys();
  const double blocks = kv_heads * std::ceil(16 * heads / kv_heads / 128);
  const auto time = [&](double units) {
    return block_attention_time(s, t, 16,
                                {Seconds{}, Seconds{}, units, Seconds{2e-6}, BytesPerSecond{1e12}})
        .value;
  };
  CHECK(time(8 * blocks) == Approx(8192 * 30e-9));
  b.attention_split_keys = figure(512.0);
  CHECK(time(blocks) == Approx(8192 * 30e-9));
  const double results = 8.0 * 16 * 4 * heads * 130 / 1e12;
  CHECK(time(4 * blocks) == Approx(8192 * 30e-9 / 4 + results + 2e-6));
  // Each has 512 keys or more.
  CHECK(time(100 * blocks) == Approx(8192 * 30e-9 / 16 + 4 * results + 2e-6));
  // Where two blocks share the values of a head, half as many share its keys.
  b.wide_head_attention = WideHeadAttention{figure(127.0), figure(128.0), figure(64.0)};
  CHECK(time(4 * blocks) == Approx(8192 * 30e-9 / 2 + results / 2 + 2e-6));
  b.wide_head_attention->above = figure(128.0);
  CHECK(time(4 * blocks) == Approx(8192 * 30e-9 / 4 + results + 2e-6));
}
