// The other tools' formulas, compared with figures calculated by hand from their constants, and
// with figures that llmfit's authors state.

#include "bench/formulas/canirun.hpp"
#include "bench/formulas/inputs.hpp"
#include "bench/formulas/llmfit.hpp"
#include "tests/catch.hpp"
#include "tests/perfmodel/machine_fixture.hpp"

using namespace rigcast;
using namespace rigcast::formulas;
using Catch::Matchers::WithinRel;
using fixtures::machine;

namespace {

// Every expected value is the same product of a few doubles in another order.
constexpr double kRounding = 1e-12;

// Parameters in 10^9, from the shapes in model_fixtures.hpp.
constexpr double kLlama8b = 8.030261248;
constexpr double kQwen30b = 30.532122624, kQwen30bActive = 3.353032704;
constexpr double kLlama70b = 70.553706496;

Scenario q4(ModelSpec model, Rig rig = machine()) {
  return fixtures::scenario_of(std::move(model), std::move(rig), "Q4_K_M");
}

Rig without_gpu() { return machine(24_GiB, 0); }

Rig unified(const char* vendor, Bytes memory) {
  Rig rig = machine(memory);
  rig.gpus[0].unified = true;
  rig.gpus[0].vendor = vendor;
  rig.ram.capacity.value = memory;
  return rig;
}

ModelSpec llama_70b() {
  ModelSpec m = fixtures::llama_3_1_70b();
  m.rope_freqs = false;
  return m;
}

// One card of 512 GB/s, as that of llmfit's own calibration.
Rig calibration_rig() {
  Rig rig = machine(16_GiB);
  rig.gpus[0].bandwidth.value = 512_GBps;
  return rig;
}

ModelSpec olmoe() {
  return fixtures::with_experts(fixtures::dense("olmoe", {16, 2048, 16, 16, 128, 0, 50304}), 64, 8,
                                1024);
}

void is(std::optional<double> found, double expected, double tolerance = kRounding) {
  REQUIRE(found);
  CHECK_THAT(*found, WithinRel(expected, tolerance));
}

}  // namespace

TEST_CASE("Parameters are counted as publishers count them", "[formulas]") {
  const auto dense = parameter_count(q4(fixtures::llama_3_8b()));
  CHECK_THAT(dense.total, WithinRel(kLlama8b, kRounding));
  CHECK(dense.active == dense.total);
  const auto experts = parameter_count(q4(fixtures::qwen3_30b_a3b()));
  CHECK_THAT(experts.total, WithinRel(kQwen30b, kRounding));
  CHECK_THAT(experts.active, WithinRel(kQwen30bActive, kRounding));
  ModelSpec drafting = fixtures::qwen3_30b_a3b();
  drafting.nextn_layers = 1;
  const Scenario with_draft = q4(drafting);
  CHECK(with_draft.tensors.speculation.elements() > 0);
  CHECK_THAT(parameter_count(with_draft).total, WithinRel(kQwen30b, kRounding));
}

TEST_CASE("A quant mix takes the row of its bits", "[formulas]") {
  CHECK(quant_row("BF16") == QuantRow::kF16);
  CHECK(quant_row("Q8_0") == QuantRow::kQ8);
  CHECK(quant_row("IQ4_XS") == QuantRow::kQ4);
  CHECK(quant_row("Q3_K_L") == QuantRow::kQ3);
  CHECK(quant_row("IQ2_XXS") == QuantRow::kQ2);
  CHECK(quant_row("MXFP4") == QuantRow::kMxfp4);
  CHECK_FALSE(quant_row("F32"));
  CHECK_FALSE(quant_row("TQ1_0"));
  CHECK_FALSE(quant_row("IQ1_S"));
}

TEST_CASE("The share on the GPUs follows the placement", "[formulas]") {
  Scenario s = q4(fixtures::mixtral_8x7b());
  CHECK_FALSE(placed_gpu_share(s));
  s.placement.gpu_layers = 33;
  CHECK(placed_gpu_share(s) == 1);
  s.placement.gpu_layers = 0;
  CHECK(placed_gpu_share(s) == 0);
  s.placement.gpu_layers.reset();
  s.placement.cpu_moe_layers = 32;
  double experts = 0, all = double(s.tensors.head.bytes());
  for (const LayerWeights& layer : s.tensors.layers) {
    experts += double(layer.experts.bytes());
    all += double(layer.bytes());
  }
  is(placed_gpu_share(s), 1 - experts / all);
}

TEST_CASE("llmfit: a dense model on one GPU", "[formulas]") {
  Scenario s = q4(fixtures::llama_3_8b());
  is(llmfit_decode(s), 400 / (kLlama8b * 0.5) * 0.55);  // 54.8
  s.quant = "Q8_0";
  is(llmfit_decode(s), 400 / (kLlama8b * 1.0) * 0.55);
  s.quant = "F32";
  CHECK_FALSE(llmfit_decode(s));
}

TEST_CASE("llmfit: context and depth do not change the speed", "[formulas]") {
  Scenario s = q4(fixtures::llama_3_8b());
  const auto before = llmfit_decode(s);
  s.workload.context = 32768;
  s.workload.depth = 30000;
  CHECK(llmfit_decode(s) == before);
}

TEST_CASE("llmfit: spilling halves the speed, however much is spilled", "[formulas]") {
  Scenario s = q4(fixtures::llama_3_8b());
  for (const int layers : {1, 16, 32}) {
    s.placement.gpu_layers = layers;
    is(llmfit_decode(s), 400 / (kLlama8b * 0.5) * 0.55 * 0.5);  // 27.4
  }
  s.placement.gpu_layers = 33;
  is(llmfit_decode(s), 400 / (kLlama8b * 0.5) * 0.55);
}

TEST_CASE("llmfit: left open, weights, cache and 0.5 decide what spills", "[formulas]") {
  // 8.03 * 0.58 + 2 * 32 layers * 8 * 128 * 4096 * 2 B (0.5 GiB) + 0.5 = 5.66.
  is(llmfit_decode(q4(fixtures::llama_3_8b(), machine(6_GiB))), 400 / (kLlama8b * 0.5) * 0.55);
  is(llmfit_decode(q4(fixtures::llama_3_8b(), machine(5_GiB))),
     400 / (kLlama8b * 0.5) * 0.55 * 0.5);
  Scenario longer = q4(fixtures::llama_3_8b(), machine(6_GiB));
  longer.workload.context = 8192;  // 6.16
  is(llmfit_decode(longer), 400 / (kLlama8b * 0.5) * 0.55 * 0.5);
  Scenario large = q4(fixtures::llama_3_8b(), machine(5_GiB));
  large.rig.ram.capacity.value = 7_GiB;  // 2 GiB of it in use
  CHECK_FALSE(llmfit_decode(large));
  large.placement.gpu_layers = 20;  // a user who runs it asks for the speed alone
  CHECK(llmfit_decode(large));
}

TEST_CASE("llmfit: CPU only is a constant, whatever the memory", "[formulas]") {
  Scenario s = q4(fixtures::llama_3_8b(), without_gpu());
  is(llmfit_decode(s), 70 / kLlama8b * 1.15 * 1.1 * 0.3);  // 3.3
  s.rig.ram.bandwidth.value = 400_GBps;
  is(llmfit_decode(s), 70 / kLlama8b * 1.15 * 1.1 * 0.3);
  s.rig.cpu.simd = "neon-i8mm";
  s.rig.cpu.cores = s.rig.cpu.threads = 4;
  is(llmfit_decode(s), 90 / kLlama8b * 1.15 * 0.3);
  Scenario no_layers = q4(fixtures::llama_3_8b());
  no_layers.placement.gpu_layers = 0;
  is(llmfit_decode(no_layers), 70 / kLlama8b * 1.15 * 1.1 * 0.3);
  Scenario prefill_only = q4(fixtures::llama_3_8b());
  prefill_only.placement.decode_device = DecodeDevice::kCpu;
  is(llmfit_decode(prefill_only), 70 / kLlama8b * 1.15 * 1.1 * 0.3);
}

TEST_CASE("llmfit: experts in VRAM", "[formulas]") {
  // 48 layers: 8 experts of 3 * 2048 * 768; q, k, v and output of 32 + 4 heads of 128; 128 rows of
  // the router; two vocabularies.
  const double routed = 48.0 * 8 * 3 * 2048 * 768 / 1e9;
  const double fixed = (48.0 * 2 * 36 * 128 * 2048 + 48.0 * 128 * 2048 + 2.0 * 151936 * 2048) / 1e9;
  const double free_of_pressure = 400 / (routed * 0.58 + fixed * 3.2);  // 66.9
  is(llmfit_decode(q4(fixtures::qwen3_30b_a3b(), machine(48_GiB))), free_of_pressure);
  // 17.7 of 24 are in use, 120 of 128 experts are idle.
  is(llmfit_decode(q4(fixtures::qwen3_30b_a3b())),
     free_of_pressure * (1 - (kQwen30b * 0.58 / 24 - 0.6) * 120 / 128));
  // Two cards hold the model, but the tool's rule for memory pressure uses one card, which is
  // overfull, and so adds no penalty.
  is(llmfit_decode(q4(fixtures::qwen3_30b_a3b(), machine(16_GiB, 2))), free_of_pressure);
}

TEST_CASE("llmfit: its authors' figures for experts in VRAM", "[formulas]") {
  // fit.rs: OLMoE on an RX 6900 XT 281, 257, 216; gpt-oss-120b at 256 GB/s about 50 (Q4).
  const auto estimate = [](const char* quant) {
    return llmfit_decode(fixtures::scenario_of(olmoe(), calibration_rig(), quant));
  };
  const double half = 0.5;  // they state whole tokens/s
  is(estimate("Q2_K"), 281, half / 281);
  is(estimate("Q4_K_M"), 257, half / 257);
  is(estimate("Q8_0"), 216, half / 216);

  ModelSpec large = fixtures::gpt_oss_20b();
  large.layers = 36;
  large.moe->experts = 128;
  Rig rig = unified("nvidia", 128_GiB);
  rig.gpus[0].bandwidth.value = 256_GBps;
  is(llmfit_decode(q4(large, rig)), 50, half / 50);
}

TEST_CASE("llmfit: what its scraper makes of a config.json", "[formulas]") {
  const auto expected = [](double routed, double fixed) {
    return 400 / ((routed * 0.58 + fixed * 3.2) / 1e9);
  };
  // Mixtral's experts have the width of intermediate_size.
  is(llmfit_decode(q4(fixtures::mixtral_8x7b(), machine(48_GiB))),
     expected(32.0 * 2 * 3 * 4096 * 14336,
              32.0 * 2 * 40 * 128 * 4096 + 32.0 * 8 * 4096 + 2.0 * 32000 * 4096));  // 34.2
  // Shared experts count for Qwen alone.
  ModelSpec qwen = fixtures::qwen3_30b_a3b();
  qwen.moe->shared_ffn = 512;
  const double rest = 48.0 * 2 * 36 * 128 * 2048 + 48.0 * 128 * 2048 + 2.0 * 151936 * 2048;
  is(llmfit_decode(q4(qwen, machine(48_GiB))),
     expected(48.0 * 8 * 3 * 2048 * 768, rest + 48.0 * 3 * 2048 * 512));
  // DeepSeek's 2 shared ones do not, its dense layer counts as one with experts, and its heads are
  // as wide as hidden_size / heads.
  ModelSpec deepseek = fixtures::deepseek_v2_lite();
  deepseek.heads = deepseek.kv_heads = 32;
  is(llmfit_decode(q4(deepseek, machine(48_GiB))),
     expected(27.0 * 6 * 3 * 2048 * 1408,
              27.0 * 2 * 64 * 64 * 2048 + 27.0 * 64 * 2048 + 2.0 * 102400 * 2048));
}

TEST_CASE("llmfit: experts in RAM", "[formulas]") {
  const double read = kQwen30bActive * 0.5;
  const double expected = 0.8 / (read / 50 + read / (0.55 * 400));  // 19.4
  Scenario s = q4(fixtures::qwen3_30b_a3b());
  s.placement.cpu_moe_layers = 48;
  is(llmfit_decode(s), expected);
  s.placement.cpu_moe_layers = 10;  // all or nothing
  is(llmfit_decode(s), expected);
  s.placement.cpu_moe_layers = 0;
  s.placement.gpu_layers = 20;  // its planner takes layers on the host for experts in RAM
  is(llmfit_decode(s), expected);
  is(llmfit_decode(q4(fixtures::qwen3_30b_a3b(), machine(8_GiB))), expected);
  // 3.35 * 0.58 / 1.074 * 1.1 = 1.99 do not fit: everything counts as spilled.
  is(llmfit_decode(q4(fixtures::qwen3_30b_a3b(), machine(1_GiB))), 400 / read * 0.55 * 0.5);
}

TEST_CASE("llmfit: several GPUs lend their memory, not their bandwidth", "[formulas]") {
  is(llmfit_decode(q4(llama_70b(), machine(24_GiB, 2))), 400 / (kLlama70b * 0.5) * 0.55);
  is(llmfit_decode(q4(llama_70b(), machine(24_GiB, 1))), 400 / (kLlama70b * 0.5) * 0.55 * 0.5);
  Rig unequal = machine(24_GiB, 2);
  unequal.gpus[1].memory.value = 32_GiB;
  unequal.gpus[1].bandwidth.value = 800_GBps;
  is(llmfit_decode(q4(llama_70b(), unequal)), 800 / (kLlama70b * 0.5) * 0.55);
}

TEST_CASE("llmfit: unified memory is one pool", "[formulas]") {
  Scenario s = q4(fixtures::llama_3_8b(), unified("apple", 16_GiB));
  is(llmfit_decode(s), 400 / (kLlama8b * 0.5) * 0.55);
  s.placement.gpu_layers = 16;
  is(llmfit_decode(s), 400 / (kLlama8b * 0.5) * 0.55);
  CHECK_FALSE(llmfit_decode(q4(llama_70b(), unified("apple", 32_GiB))));
}

TEST_CASE("canirun: a dense model on one GPU", "[formulas]") {
  // 8.03e9 * 0.5 / 2^30 * 1.1 + 0.5 = 4.61, to one decimal.
  is(canirun_decode(q4(fixtures::llama_3_8b())), 400 / 4.6 * 0.70);  // 60.9
  Scenario s = q4(fixtures::llama_3_8b());
  s.quant = "F16";  // 16.95
  is(canirun_decode(s), 400 / 17.0 * 0.70);
  s.quant = "Q3_K_M";  // 4.10
  is(canirun_decode(s), 400 / 4.1 * 0.70);
  s.quant = "TQ2_0";
  CHECK_FALSE(canirun_decode(s));
}

TEST_CASE("canirun: what VRAM does not hold is read at 50 GB/s", "[formulas]") {
  // 70.55e9 * 0.5 / 2^30 * 1.1 + 0.5 = 36.64.
  const double v = 24 / 36.6;
  const double expected = 1 / (v / 400 + (1 - v) / 50) / 36.6 * 0.70 * 0.85;  // 1.9
  Scenario s = q4(llama_70b());
  is(canirun_decode(s), expected);
  s.rig.ram.bandwidth.value = 400_GBps;
  is(canirun_decode(s), expected);
}

TEST_CASE("canirun: layers on the CPU are a card with less memory", "[formulas]") {
  Scenario s = q4(fixtures::llama_3_8b());
  s.placement.gpu_layers = 16;
  const auto share = placed_gpu_share(s);
  REQUIRE(share);
  is(canirun_decode(s), 1 / (*share / 400 + (1 - *share) / 50) / 4.6 * 0.70 * 0.85);
  s.placement.gpu_layers = 33;
  is(canirun_decode(s), 400 / 4.6 * 0.70);
}

TEST_CASE("canirun: CPU only takes a bandwidth from the size of RAM", "[formulas]") {
  Scenario s = q4(fixtures::llama_3_8b(), without_gpu());
  is(canirun_decode(s), 100 / 4.6 * 0.70);  // 15.2
  s.rig.ram.capacity.value = 16_GiB;
  is(canirun_decode(s), 64 / 4.6 * 0.70);  // 9.7
  s.rig.ram.capacity.value = 6_GiB;        // 70 % of it count
  CHECK_FALSE(canirun_decode(s));
}

TEST_CASE("canirun: experts", "[formulas]") {
  // 30.53e9 * 0.5 / 2^30 * 1.1 + 0.5 = 16.14.
  const double read = 16.1 * kQwen30bActive / kQwen30b;
  is(canirun_decode(q4(fixtures::qwen3_30b_a3b())), 400 / read * 0.70);  // 158
  const double v = 8 / 16.1;
  is(canirun_decode(q4(fixtures::qwen3_30b_a3b(), machine(8_GiB))),
     1 / (v / 400 + (1 - v) / 50) / read * 0.70 * 0.85);  // 29.8
  Scenario split = q4(fixtures::qwen3_30b_a3b());
  split.placement.cpu_moe_layers = 48;
  const auto share = placed_gpu_share(split);
  REQUIRE(share);
  is(canirun_decode(split), 1 / (*share / 400 + (1 - *share) / 50) / read * 0.70 * 0.85);
}

TEST_CASE("canirun: several GPUs lend their memory, not their bandwidth", "[formulas]") {
  is(canirun_decode(q4(llama_70b(), machine(24_GiB, 2))), 400 / 36.6 * 0.70);  // 7.7
}

TEST_CASE("canirun: unified memory", "[formulas]") {
  is(canirun_decode(q4(fixtures::llama_3_8b(), unified("apple", 16_GiB))), 400 / 4.6 * 0.65);
  is(canirun_decode(q4(fixtures::llama_3_8b(), unified("amd", 16_GiB))), 400 / 4.6 * 0.70);
  // 36.6 of 48: Apple may use 75 %, others 70 %.
  CHECK_FALSE(canirun_decode(q4(llama_70b(), unified("apple", 48_GiB))));
  CHECK_FALSE(canirun_decode(q4(llama_70b(), unified("apple", 49664_MiB))));  // 36.4
  CHECK(canirun_decode(q4(llama_70b(), unified("apple", 49_GiB))));
  CHECK_FALSE(canirun_decode(q4(llama_70b(), unified("amd", 49_GiB))));
}

TEST_CASE("canirun: what neither memory holds has no speed", "[formulas]") {
  Scenario s = q4(llama_70b(), machine(16_GiB));
  s.rig.ram.capacity.value = 32_GiB;  // 16 + 22.4
  CHECK(canirun_decode(s));
  s.rig.ram.capacity.value = 28_GiB;  // 16 + 19.6
  CHECK_FALSE(canirun_decode(s));
  s.placement.gpu_layers = 20;  // a user who runs it asks for the speed alone
  CHECK(canirun_decode(s));
}

TEST_CASE("canirun: a tight fit runs without RAM to spill to", "[formulas]") {
  Scenario s = q4(fixtures::llama_3_8b(), machine(4608_MiB));  // 4.5, and 10 % more
  s.rig.ram.capacity.value = 4_GiB;
  const double v = 4.5 / 4.6;
  is(canirun_decode(s), 1 / (v / 400 + (1 - v) / 50) / 4.6 * 0.70 * 0.85);
  s.rig.gpus[0].memory.value = 4_GiB;  // 4.4; RAM no larger than VRAM does not count
  CHECK_FALSE(canirun_decode(s));
}
