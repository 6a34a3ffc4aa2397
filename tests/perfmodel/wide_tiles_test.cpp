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
  // 1,024 columns are too few for two blocks.
  CHECK(time(25 * 128, 1024, 256).compute.value == Approx(of_block / 4 / unit));
  // Two blocks of 128 tokens at once take twice as long at half the rate.
  CHECK(time(200 * 128, 4096, 128).compute.value == Approx(of_block / (0.25e15 / 100)));
  CHECK(time(200 * 128, 4096, 128).start.value == Approx(10e-6));
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
}

TEST_CASE("Blocks share the keys of few tokens' attention, and write what they find", "[gpu]") {
  Scenario s = of_gpu("pascal", std::string(kProfile));
  s.runtime.blocks.emplace();
  BlockEfficiency& b = *s.runtime.blocks;
  b.attention_rows = figure(128.0);
  b.attention_key = figure(Seconds{30e-9});
  b.attention_step = figure(Seconds{});
  b.quantized_cache = figure(1.0);
  const double heads = double(s.model.heads), kv_heads = double(s.model.kv_heads);
  OpTraffic t;
  t.attention_flops = 1;
  t.prompts = 1;
  t.prompt_keys = 8192;
  t.flops_of_score = 4.0 * 128;
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
}
