// Cost of operations on a GPU, calculated by hand.

#include <algorithm>
#include <cmath>
#include <string>

#include "perfmodel/cost/gpu_cost.hpp"
#include "perfmodel/cost/operation.hpp"
#include "tests/catch.hpp"
#include "tests/perfmodel/gpu_fixture.hpp"

using namespace rigcast;
using namespace rigcast::fixtures;

namespace {

// The rate at which a batch multiplies floats: gemm and gemm_half_rate_batch of kProfile.
double float_rate(double tokens) { return 10e12 * 0.42 / (1 + 67 / tokens); }
// And quantized blocks, four in a lane: tiles and tile_half_rate_batch.
double tile_rate(double tokens) { return 4 * 10e12 * 0.24 / (1 + 30 / tokens); }

double read_seconds(const Scenario& s, TokenCount tokens) {
  return gpu_cost(s, 0, product(double(tokens)), tokens, 0).equivalent_bytes.value / kBandwidth;
}

double overhead(const Scenario& s, Launches launches) {
  return operation_cost(s, 0, {}, 1, launches).overhead.value;
}

}  // namespace

TEST_CASE("CUDA multiplies quantized blocks as tiles where lanes have dot products", "[gpu]") {
  CHECK(seconds(of_gpu("pascal"), product(64), 64) == Approx(2 * kElements * 64 / tile_rate(64)));
}

TEST_CASE("CUDA writes them out as FP16 where there are none, and multiplies those", "[gpu]") {
  Scenario s = of_gpu("pascal-dc");
  const OpTraffic t = product(64);
  // Read and written as two bytes an element, at `expand` of the bandwidth.
  const double moved = (kElements * 34 / 32 + 2 * kElements) / (kBandwidth * 0.8);
  CHECK(seconds(s, t, 64) == Approx(moved + 2 * kElements * 64 / float_rate(64)));
  const OpTraffic floats = product(64, QuantFormat::kF16);
  CHECK(seconds(s, floats, 64) == Approx(2 * kElements * 64 / float_rate(64)));
  // How a format is unpacked is no matter of the product.
  s.runtime.formats[std::size_t(FormatGroup::kQ8)].batch.value = 0.5;
  CHECK(seconds(s, t, 64) == Approx(moved + 2 * kElements * 64 / float_rate(64)));
  s.runtime.formats[std::size_t(FormatGroup::kQ8)].batch.value = 1;
  s.settings.backend = Backend::kVulkan;  // has kernels of its own, at the rate of floats
  CHECK(seconds(s, t, 64) == Approx(2 * kElements * 64 / (tile_rate(64) / 4)));
}

TEST_CASE("Where matrix units know floats alone, long batches are theirs", "[gpu]") {
  Scenario s = of_gpu("volta");
  s.rig.gpus.front().fp16_tensor = {80_TFLOPs, SourceKind::kSpec, "a test"};
  CHECK(seconds(s, product(32), 32) == Approx(2 * kElements * 32 / tile_rate(32)));
  const double moved = (kElements * 34 / 32 + 2 * kElements) / (kBandwidth * 0.8);
  const double rate = 80e12 * 0.42 / (1 + 67.0 / 64);
  CHECK(seconds(s, product(64), 64) == Approx(moved + 2 * kElements * 64 / rate));
  s.settings.backend = Backend::kRocm;  // the same code
  CHECK(seconds(s, product(32), 32) == Approx(2 * kElements * 32 / tile_rate(32)));
  CHECK(seconds(s, product(64), 64) == Approx(moved + 2 * kElements * 64 / rate));
  s.settings.backend = Backend::kCuda;
  s.rig.gpus.front().fp16_tensor = {800_TFLOPs, SourceKind::kSpec, "a test"};
  CHECK(seconds(s, product(64), 64) == Approx(moved + 2 * kElements / (kBandwidth * 0.8)));
  // What fits into the cache of a matrix of 500 MB is neither written to memory nor read.
  s.rig.gpus.front().l2 = {125_MiB, SourceKind::kSpec, "a test"};
  OpTraffic matrices = product(64);
  matrices.matrices = 4;
  const double passes = 2 * kElements - 4 * double(125 << 20);
  CHECK(seconds(s, matrices, 64) ==
        Approx((kElements * 34 / 32 + 2 * passes) / (kBandwidth * 0.8)));
  s.rig.gpus.front().int8_tensor = {160_TFLOPs, SourceKind::kSpec, "a test"};
  CHECK(seconds(s, product(64), 64) ==
        Approx(2 * kElements * 64 / (160e12 * 0.24 / (1 + 30.0 / 64))));
}

TEST_CASE("A library's last wave of thread blocks leaves units idle", "[gpu]") {
  Scenario s = of_gpu("pascal");
  s.rig.gpus.front().units = 20;
  OpTraffic floats = product(64, QuantFormat::kF16);
  floats.products[0] = {.rows = 1600, .elements = std::uint64_t(kElements)};
  const double busy = seconds(s, floats, 64);
  s.runtime.backends[std::size_t(Backend::kCuda)].gemm_tile.value = 64;
  // 25 blocks of 64 rows take two waves of 20 units. What a short batch waits for takes no longer.
  const double wait = 67 / 64.0;  // gemm_half_rate_batch
  CHECK(seconds(s, floats, 64) == Approx(busy * (40 / 25.0 + wait) / (1 + wait)));
  const auto of = [&](double tokens) {
    OpTraffic own = floats;
    own.matmul_flops = 2 * kElements * tokens;
    own.tokens_per_weight = tokens;
    return seconds(s, own, TokenCount(tokens));
  };
  for (int tokens = 17; tokens < 400; ++tokens) CHECK(of(tokens + 1) >= of(tokens) * (1 - 1e-3));
  floats.routed = true;  // the products of each expert are of other sizes
  s.runtime.batch.experts.value = 1;
  CHECK(seconds(s, floats, 64) == Approx(busy));
}

TEST_CASE("Beside matrix units every unit multiplies with the scales of blocks", "[gpu]") {
  Scenario s = of_gpu("ampere");
  s.rig.gpus.front().int8_tensor = {40_TFLOPs, SourceKind::kSpec, "a test"};
  const double matrix = 2 * kElements * 64 / (40e12 * 0.24);
  const double ramp = 1 + 30 / 64.0;  // tile_half_rate_batch
  CHECK(seconds(s, product(64), 64) == Approx(matrix * ramp));
  s.runtime.batch.tile_cycles.value = 1.5;  // per 1,000 FLOPs
  const double units = 10e12 / (2 * 128);   // FP32 multiply-adds of 128 lanes: cycles of all units
  const double scales = 2 * kElements * 64 * 1.5e-3 / units;
  CHECK(seconds(s, product(64), 64) == Approx((matrix + scales) * ramp));
  // A format's factor is of that work alone.
  s.runtime.formats[std::size_t(FormatGroup::kQ8)].batch.value = 0.5;
  CHECK(seconds(s, product(64), 64) == Approx((matrix + 2 * scales) * ramp));
  s.rig.gpus.front().int8_tensor.reset();  // units do all of it, at the rate of their dot products
  CHECK(seconds(s, product(64), 64) == Approx(2 * 2 * kElements * 64 / tile_rate(64)));
}

TEST_CASE("A batch's attention has a softmax beside the matrix units", "[gpu]") {
  Scenario s = of_gpu("ampere");
  s.rig.gpus.front().fp16_tensor = {80_TFLOPs, SourceKind::kSpec, "a test"};
  OpTraffic t;
  t.attention_flops = 1e12;
  t.flops_of_score = 512;
  CHECK(seconds(s, t, 64) == Approx(1e12 / (80e12 * 0.35)));
  s.runtime.batch.score_cycles.value = 2;
  CHECK(seconds(s, t, 64) == Approx(1e12 / (80e12 * 0.35) + 2 * 1e12 / 512 / (10e12 / 256)));
}

TEST_CASE("Kernels compute the cells that a mask hides, but newer ones in long batches", "[gpu]") {
  Scenario s = of_gpu("ampere");
  OpTraffic t;
  t.attention_flops = 1e12;
  t.causal_flops = 2e12;
  t.cell_flops = 4e12;
  const auto computed = [&](TokenCount tokens) { return seconds(s, t, tokens) * 10e12 * 0.35; };
  CHECK(computed(64) == Approx(1e12));  // a profile that does not say
  BackendEfficiency& cuda = s.runtime.backends[std::size_t(Backend::kCuda)];
  cuda.masked_since.value = 2025.5;
  cuda.masked_tokens.value = 1024;
  CHECK(computed(1023) == Approx(4e12));
  CHECK(computed(1024) == Approx(2e12));
  cuda.masked_windows = true;
  CHECK(computed(1024) == Approx(1e12));
  s.settings.build_year = 2025.4;
  CHECK(computed(1024) == Approx(4e12));
  s.settings.build_year.reset();
  s.settings.flash_attention = false;
  CHECK(computed(1024) == Approx(4e12 * 0.35 / 0.42));  // at the rate of float products
}

TEST_CASE("Without INT8 matrix units blocks are multiplied as floats, or by dot products",
          "[gpu]") {
  Scenario s = of_gpu("pascal");
  s.settings.backend = Backend::kVulkan;
  BackendEfficiency& vulkan = s.runtime.backends[std::size_t(Backend::kVulkan)];
  vulkan.int8_units = false;
  const auto rate = [&](QuantFormat format) {
    return 2 * kElements * 64 / seconds(s, product(64, format), 64);
  };
  CHECK(rate(QuantFormat::kQ8_0) == Approx(float_rate(64)));  // of no build
  vulkan.dots_since.value = 2025.25;
  CHECK(rate(QuantFormat::kQ8_0) == Approx(tile_rate(64)));
  CHECK(rate(QuantFormat::kQ4_K) == Approx(float_rate(64)));
  vulkan.dots_256_since.value = 2025.8;
  CHECK(rate(QuantFormat::kQ4_K) == Approx(tile_rate(64)));
  s.settings.build_year = 2025.5;
  CHECK(rate(QuantFormat::kQ4_K) == Approx(float_rate(64)));
  CHECK(rate(QuantFormat::kQ8_0) == Approx(tile_rate(64)));
  s.rig.gpus.front().fp16_tensor = {10_TFLOPs, SourceKind::kSpec, "a test"};
  CHECK(rate(QuantFormat::kQ8_0) == Approx(float_rate(64)));  // as FP16 on matrix units
}

TEST_CASE("A batch's quantized products have kernels before and after them", "[gpu]") {
  Scenario s = of_gpu("ampere");
  OpTraffic t = product(64);
  t.matrices = 3;
  const double launch = 3e-6 * 1.25;
  CHECK(gpu_cost(s, 0, t, 64, 7).overhead.value == Approx(7 * launch));
  s.runtime.backends[std::size_t(Backend::kCuda)].batch_kernels.value = 2;
  CHECK(gpu_cost(s, 0, t, 64, 7).overhead.value == Approx(13 * launch));
  s.runtime.batch.launch.value = 1.5;
  CHECK(gpu_cost(s, 0, t, 64, 7).overhead.value == Approx(1.5 * 13 * launch));
  OpTraffic floats = product(64, QuantFormat::kF16);
  floats.matrices = 3;
  CHECK(gpu_cost(s, 0, floats, 64, 7).overhead.value == Approx(1.5 * 7 * launch));
  // cuBLAS takes FP16; a kernel of llama.cpp's own, for up to 16 tokens, takes what there is.
  s.runtime.backends[std::size_t(Backend::kCuda)].float_kernels.value = 3;
  CHECK(gpu_cost(s, 0, floats, 64, 7).overhead.value == Approx(1.5 * 16 * launch));
  CHECK(gpu_cost(s, 0, floats, 16, 7).overhead.value == Approx(1.5 * 7 * launch));
}

TEST_CASE("Tiles of experts are whole, however few tokens they get", "[gpu]") {
  Scenario s = of_gpu("ampere");
  s.rig.gpus.front().int8_tensor = {40_TFLOPs, SourceKind::kSpec, "a test"};
  s.model.moe = MixtureOfExperts{};
  s.model.moe->experts = 32;
  s.model.moe->experts_used = 2;
  s.runtime.batch.experts.value = 0.5;
  // A batch whose experts get 1/16 of it, of those that get a token.
  const auto batch = [](double tokens) {
    const double mean = tokens / 16, hit = 1 - std::pow(15.0 / 16, tokens);
    OpTraffic t = product(mean / hit);
    t.routed = true;
    return t;
  };
  const auto time = [&](double tokens) { return seconds(s, batch(tokens), TokenCount(tokens)); };
  const auto alone = [](double columns) { return 2 * kElements * columns * (1 + 30 / columns); };
  const double before = alone(batch(64).tokens_per_weight) / (40e12 * 0.24 * 0.5);
  CHECK(time(64) == Approx(before));
  s.runtime.batch.expert_columns.value = 128;
  s.runtime.batch.expert_columns_since.value = 2025.35;
  s.runtime.batch.expert_tiles.value = 0.8;
  const double rate = 40e12 * 0.24 * 0.8;
  CHECK(time(64) == Approx(alone(64) / rate));   // no expert gets more
  CHECK(time(136) == Approx(alone(80) / rate));  // two tiles, of 68 columns or more
  CHECK(time(200) == Approx(alone(112) / rate));
  // Experts get 128 of 2,048 tokens: about half of them more, which is a second tile.
  CHECK(time(2048) == Approx(alone(128 * 1.5) / rate).epsilon(0.03));
  double last = 0;
  for (double tokens = 1200; tokens < 4096; tokens += 8) {  // and no step where the mean is a tile
    CHECK(time(tokens) < 1.02 * std::max(last, time(1200)));
    CHECK(time(tokens) >= last);
    last = time(tokens);
  }
  s.settings.build_year = 2025.2;
  CHECK(time(64) == Approx(before));
  s.settings.build_year.reset();
  s.settings.backend = Backend::kVulkan;
  CHECK(time(64) == Approx(before));
}

TEST_CASE("Builds before one kernel for all experts launched those of each", "[gpu]") {
  Scenario s = of_gpu("ampere");
  s.model.moe = MixtureOfExperts{};
  s.model.moe->experts = 32;
  s.model.moe->experts_used = 2;
  OpTraffic t = product(4);
  t.routed = true;
  t.matrices = 3;
  const double launch = 3e-6 * 1.25;
  s.runtime.backends[std::size_t(Backend::kCuda)].batch_kernels.value = 2;
  s.runtime.batch.expert_columns_since.value = 2025.35;
  CHECK(gpu_cost(s, 0, t, 64, 7).overhead.value == Approx((7 + 3 * 2) * launch));
  s.settings.build_year = 2025.2;
  const double hit = 32 * (1 - std::pow(15.0 / 16, 64));
  CHECK(gpu_cost(s, 0, t, 64, 7).overhead.value == Approx((7 + 3 * (5 * hit - 1)) * launch));
}

TEST_CASE("Where matrix units know floats alone, experts of long batches take turns", "[gpu]") {
  Scenario s = of_gpu("volta");
  s.rig.gpus.front().fp16_tensor = {80_TFLOPs, SourceKind::kSpec, "a test"};
  s.model.moe = MixtureOfExperts{};
  s.model.moe->experts = 32;
  s.model.moe->experts_used = 2;
  s.runtime.batch.experts.value = 1;
  s.runtime.batch.expert_columns_since.value = 2025.35;
  s.runtime.prefill.expert_sort.value = Seconds{1e-9};
  s.runtime.prefill.expert_sort_until.value = 2025.65;
  OpTraffic t = product(16);  // of 256 tokens, for each expert
  t.routed = true;
  t.matrices = 3;
  // An expert's own tokens tell how they are multiplied.
  CHECK(seconds(s, t, 256) == Approx(2 * kElements * 16 / tile_rate(16)));
  const double launch = 3e-6 * 1.25;
  CHECK(gpu_cost(s, 0, t, 63, 7).overhead.value == Approx(7 * launch));
  const double hit = 32 * (1 - std::pow(15.0 / 16, 256));  // gathered, multiplied, scattered
  const double sorting = 256 * 2 * 32 * 3 * 1e-9;
  CHECK(gpu_cost(s, 0, t, 256, 7).overhead.value ==
        Approx((7 + 3 * (3 * hit - 1)) * launch + sorting));
  CHECK(gpu_cost(s, 0, t, 256, 7).serial.value == Approx(sorting));
  CHECK(gpu_cost(s, 0, t, 63, 7).serial.value == Approx(0));
  t = product(64);  // and as many tokens as a library is faster with
  t.routed = true;
  const double moved = (kElements * 34 / 32 + 2 * kElements) / (kBandwidth * 0.8);
  CHECK(seconds(s, t, 1024) ==
        Approx(moved + 2 * kElements * 64 / (80e12 * 0.42 / (1 + 67.0 / 64))));
}

TEST_CASE("Reading and unpacking hide a part of each other", "[gpu]") {
  Scenario s = of_gpu("ampere");
  const OpTraffic t = product(1);
  const double bytes = kElements * 34 / 32;
  const double reading = bytes / (0.5 * kBandwidth);        // `read` of Ampere in kProfile
  const double units = bytes * 0.06 / (10e12 / (2 * 128));  // `cycles`, on units of 128 lanes
  const auto serial = [&] { return gpu_cost(s, 0, t, 1, 0).overhead.value; };
  CHECK(serial() == Approx(units));
  s.runtime.decode.unoverlapped_share.value = 0.25;
  REQUIRE(units < reading);
  CHECK(serial() == Approx(0.25 * units));
  s.runtime.gpu.at("ampere").cycles.value = 6;
  CHECK(serial() == Approx(100 * units - 0.75 * reading));
}

TEST_CASE("Newer builds of CUDA read floats in wide loads", "[gpu]") {
  Scenario s = of_gpu("ampere");
  const auto serial = [&](QuantFormat format) {
    return gpu_cost(s, 0, product(1, format), 1, 0).overhead.value;
  };
  const double floats = serial(QuantFormat::kF16), blocks = serial(QuantFormat::kQ8_0);
  s.runtime.decode.float_since.value = 2024.88;
  s.runtime.decode.float_cycles.value = 0.3;
  CHECK(serial(QuantFormat::kF16) == Approx(0.3 * floats));
  CHECK(serial(QuantFormat::kQ8_0) == Approx(blocks));
  s.settings.build_year = 2024.4;
  CHECK(serial(QuantFormat::kF16) == Approx(floats));
}

TEST_CASE("Metal reads a card's weights over the link, once for every token", "[gpu]") {
  Scenario s = of_gpu("rdna1");
  const double bytes = kElements * 34 / 32;
  const double in_vram = bytes / (0.78 * kBandwidth);
  CHECK(read_seconds(s, 1) == Approx(in_vram));
  CHECK(read_seconds(s, 64) == Approx(in_vram));
  s.settings.backend = Backend::kMetal;
  CHECK(read_seconds(s, 1) == Approx(bytes / 8e9));
  CHECK(read_seconds(s, 64) == Approx(64 * bytes / 8e9));
  OpTraffic routed = product(64);
  routed.tokens_per_weight = 0.5;  // an expert that few tokens choose is read once all the same
  CHECK(gpu_cost(s, 0, routed, 64, 0).equivalent_bytes.value / kBandwidth == Approx(bytes / 8e9));
  s.rig.gpus.front().unified = true;
  CHECK(read_seconds(s, 64) == Approx(in_vram));
}

TEST_CASE("Metal streams no weights of host layers for a prompt", "[gpu]") {
  Scenario s = of_gpu("rdna1");
  s.runtime.prefill.streams = true;
  s.runtime.prefill.stream_min_batch = 32;
  CHECK(place(s, 10).layers.front().prefill_on == 0);
  s.settings.backend = Backend::kMetal;
  CHECK(place(s, 10).layers.front().prefill_on == kHost);
  CHECK(place(s, 10).layers.back().prefill_on == 0);
}

TEST_CASE("A runtime may stream prompts only where the GPU decodes as well", "[gpu]") {
  Scenario s = of_gpu("rdna1");
  s.runtime.prefill.streams = true;
  CHECK(place(s, 0).layers.front().prefill_on == 0);
  s.runtime.prefill.streams_alone = false;
  CHECK(place(s, 0).layers.front().prefill_on == kHost);
  CHECK(place(s, 10).layers.front().prefill_on == 0);
  s.placement.decode_device = DecodeDevice::kCpu;
  CHECK(place(s, 10).layers.front().prefill_on == kHost);
  CHECK(place(s, 10).layers.back().prefill_on == 0);  // its weights are there
  s.placement.decode_device = DecodeDevice::kGpu;
  CHECK(place(s, 0).layers.front().prefill_on == 0);
}

TEST_CASE("Kernels start later on Windows and in a Linux inside of it", "[gpu]") {
  Scenario s = of_gpu("pascal", kProfile + "[windows]\nlaunch = 1.3\ncpu = 0.8\n");
  const double elsewhere = overhead(s, Launches::kFfn);
  CHECK(elsewhere == Approx(3e-6 * 1.25 * 7.5));  // the backend's gap, the card's factor, kernels
  for (const auto os : {OperatingSystem::kWindows, OperatingSystem::kWsl2}) {
    s.rig.os = os;
    CHECK(overhead(s, Launches::kFfn) == Approx(1.3 * elsewhere));
  }
  s.rig.os = OperatingSystem::kMacos;
  CHECK(overhead(s, Launches::kFfn) == elsewhere);
}

TEST_CASE("Latent attention has launches of its own, where a profile states them", "[gpu]") {
  std::string text = kProfile;
  text.replace(text.find("recurrent = "), 0, "latent = 30\n");
  Scenario s = of_gpu("pascal", text);
  const double launch = 3e-6 * 1.25;
  CHECK(overhead(s, Launches::kAttention) == Approx(12 * launch));
  s.model = deepseek_v2_lite();
  CHECK(overhead(s, Launches::kAttention) == Approx(30 * launch));
  CHECK(overhead(s, Launches::kFfn) == Approx(7.5 * launch));
  s.runtime = *load_profile(kProfile);
  CHECK(overhead(s, Launches::kAttention) == Approx(12 * launch));
}

TEST_CASE("Norms beyond the two of every layer are launches of their own", "[gpu]") {
  std::string text = kProfile;
  text.replace(text.find("recurrent = "), 0, "norm = 1\n");
  Scenario s = of_gpu("pascal", text);
  const double launch = 3e-6 * 1.25;
  CHECK(overhead(s, Launches::kAttention) == Approx(12 * launch));
  s.model.qk_norm = true;  // of queries, and of keys
  CHECK(overhead(s, Launches::kAttention) == Approx(14 * launch));
  CHECK(overhead(s, Launches::kFfn) == Approx(7.5 * launch));
  s.model.norms_per_layer = 4;  // one more after attention, and one after the FFN
  CHECK(overhead(s, Launches::kAttention) == Approx(15 * launch));
  CHECK(overhead(s, Launches::kFfn) == Approx(8.5 * launch));

  DatedChange fused;
  fused.figure = ChangedFigure::kNormKernels;
  fused.since.value = 2025.5;
  fused.before.value = 2;
  s.runtime.changes = {fused};
  s.settings.build_year = 2025.4;  // two for each of the four, and of the six in all
  CHECK(overhead(s, Launches::kAttention) == Approx((12 - 1 + 2 * 4) * launch));
  CHECK(overhead(s, Launches::kFfn) == Approx((7.5 - 1 + 2 * 2) * launch));
  s.settings.build_year = 2025.6;
  CHECK(overhead(s, Launches::kFfn) == Approx(8.5 * launch));
}

TEST_CASE("Wide heads scale what is read of the cache and what is done with it", "[gpu]") {
  Scenario s = of_gpu("pascal");
  s.runtime.decode.wide_heads.value = 2;
  OpTraffic t;
  t.kv_read_bytes = 1e9;
  t.attention_flops = 4e9;
  const OpCost narrow = gpu_cost(s, 0, t, 1, 0), narrow_batch = gpu_cost(s, 0, t, 64, 0);
  t.wide_heads = true;
  const OpCost wide = gpu_cost(s, 0, t, 1, 0), wide_batch = gpu_cost(s, 0, t, 64, 0);
  CHECK(narrow.equivalent_bytes.value == Approx(1e9 / 0.6));  // kv_read
  CHECK(wide.equivalent_bytes.value == Approx(2 * narrow.equivalent_bytes.value));
  // kv_cycles for every product, on units of 128 lanes with a multiply and an add each.
  CHECK(narrow.overhead.value == Approx(1e9 * 0.02 / (10e12 / (2 * 128))));
  CHECK(wide.overhead.value == Approx(2 * narrow.overhead.value));
  CHECK(wide.bytes == narrow.bytes);
  CHECK(wide_batch.equivalent_bytes.value == Approx(2 * narrow_batch.equivalent_bytes.value));
  CHECK(wide_batch.compute == narrow_batch.compute);
  s.settings.flash_attention = false;  // 1.6 of it without, for one token
  CHECK(gpu_cost(s, 0, t, 1, 0).equivalent_bytes.value ==
        Approx(2 * 1.6 * narrow.equivalent_bytes.value));
}

TEST_CASE("Of a measured rate kernels reach more than of a data sheet's", "[gpu]") {
  constexpr double kDefault = 0.92;  // of a data sheet, measured
  const auto seconds = [&](const std::string& read, Sourced<BytesPerSecond> bandwidth) {
    std::string profile = kProfile;
    profile.replace(profile.find("read = 0.78"), 11, "read = " + read);
    Scenario s = of_gpu("pascal", profile);
    s.rig.gpus.front().bandwidth = bandwidth;
    return (gpu_cost(s, 0, product(1), 1, 0).equivalent_bytes / bandwidth.value).value;
  };
  const Sourced<BytesPerSecond> sheet{BytesPerSecond{kBandwidth}, SourceKind::kSpec, "a test"};
  const Sourced<BytesPerSecond> usual{kDefault * sheet.value, SourceKind::kMeasured, "a test"};
  const double bytes = product(1).weight_bytes();
  CHECK(seconds("0.78", sheet) == Approx(bytes / (0.78 * kBandwidth)));
  CHECK(seconds("0.78", usual) == Approx(bytes / (0.78 * kBandwidth)));
  // But never more than was measured.
  CHECK(seconds("0.97", sheet) == Approx(bytes / (0.97 * kBandwidth)));
  CHECK(seconds("0.97", usual) == Approx(bytes / (kDefault * kBandwidth)));
}

TEST_CASE("Attention beside a mixer has its launches, too, behind one norm", "[gpu]") {
  Scenario s = of_gpu("pascal");
  const double launch = 3e-6 * 1.25;
  s.model.recurrent = RecurrentLayers{};
  s.model.recurrent->state_bytes = 1 << 21;
  CHECK(overhead(s, Launches::kRecurrent) == Approx(24 * launch));
  s.model.recurrent->parallel = true;
  CHECK(overhead(s, Launches::kRecurrent) == Approx((24 + 12 - 1) * launch));
}
