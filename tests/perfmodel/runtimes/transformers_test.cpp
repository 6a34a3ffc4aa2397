// PyTorch in eager mode, calculated by hand.

#include "perfmodel/runtimes/transformers.hpp"

#include "perfmodel/cost/gpu_cost.hpp"
#include "perfmodel/cost/kernel_cost.hpp"
#include "perfmodel/cost/operation.hpp"
#include "perfmodel/memory.hpp"
#include "tests/catch.hpp"
#include "tests/core/profile_fixture.hpp"
#include "tests/perfmodel/machine_fixture.hpp"

using namespace rigcast;
using namespace rigcast::fixtures;

namespace {

constexpr double kHidden = 4096, kFfn = 14336, kHeads = 32, kVocabulary = 128256;

// Llama 3 8B on one card, at the figures of kProfile and what `more` adds.
Scenario eager(const std::string& more = "") {
  Scenario s = scenario_of(llama_3_8b());
  s.runtime = *load_profile(kProfile + more);
  s.runtime.memory.logits = LogitsRows::kLast;
  s.runtime.kernels.eager = true;
  s.settings.backend = Backend::kCuda;
  s.rig.cpu.vendor = "intel";
  GpuPart& card = s.rig.gpus.front();
  card.architecture = "hopper";
  card.fp32 = {10_TFLOPs, SourceKind::kSpec, "a test"};
  s.workload.prompt_tokens = 2000;
  return s;
}

Sourced<double> year(double value) { return {value, SourceKind::kPublished, "a test"}; }

// Keys and values of one token and layer: 2 x 8 heads x 128 in F16.
constexpr double kLayerKv = 4096;

}  // namespace

TEST_CASE("A prompt's activations are those of its widest layer", "[transformers]") {
  Scenario s = eager();
  CHECK(eager_activations(s, 2000, true) == Bytes{2000 * 2 * (4 * kHidden + 3 * kFfn)});
  CHECK(eager_activations(s, 2000, false) == eager_activations(s, 2000, true));
  // Of one token the logits are more, in F32.
  CHECK(eager_activations(s, 1, true) == Bytes{2 * kHidden + 4 * kVocabulary});

  s.runtime.memory.last_logits_since = year(2024.5);
  s.settings.build_year = 2024.4;
  CHECK(eager_activations(s, 2000, true) == Bytes{2000 * (2 * kHidden + 4 * kVocabulary)});
  CHECK(eager_activations(s, 2000, false) == Bytes{2000 * 2 * (4 * kHidden + 3 * kFfn)});
  s.settings.build_year = 2024.5;
  CHECK(eager_activations(s, 2000, true) == Bytes{2000 * 2 * (4 * kHidden + 3 * kFfn)});
}

TEST_CASE("Without flash attention every score is there three times, once in F32",
          "[transformers]") {
  Scenario s = eager();
  s.settings.flash_attention = false;
  const double scores = 2000.0 * 2000 * (8 * kHeads + 2);
  const double kv = 2 * 1024, expanded = 2 * 4096;  // elements of a token
  CHECK(eager_activations(s, 2000, true) ==
        Bytes{scores + 2000 * 2 * (3 * kHidden + 4096 + kv + expanded)});
}

TEST_CASE("A GPU holds what a prompt's pass needs, and cuBLAS's workspace", "[transformers]") {
  Scenario s = eager();
  const auto vram = [&] { return gpu(plan_memory(s, place(s, 33), 2100)); };
  CHECK(vram().kv == Bytes{2100 * 32 * kLayerKv});
  CHECK(vram().activations == eager_activations(s, 2000, true) + 32_MiB);
  CHECK(vram().staging == Bytes{});  // the cache grows when the activations are free again
  s.rig.gpus.front().architecture = "ampere";
  CHECK(vram().activations == eager_activations(s, 2000, true) + 8320_KiB);
  // After a prompt of one token the keys of 4,000 tokens are more.
  s.workload.prompt_tokens = 1;
  const DeviceMemory grown = gpu(plan_memory(s, place(s, 33), 8000));
  CHECK(grown.staging + grown.activations == Bytes{8000 * kLayerKv / 2});
}

TEST_CASE("A GPU holds the prompt's cache until the CPU decodes", "[transformers]") {
  Scenario s = eager();
  s.placement.decode_device = DecodeDevice::kCpu;
  const Placement p = place(s, 33);
  REQUIRE(p.host_decodes());
  const MemoryPlan plan = plan_memory(s, p, 2100);
  CHECK(gpu(plan).kv == Bytes{});
  CHECK(gpu(plan).staging == Bytes{2000 * 32 * kLayerKv});
  CHECK(host(plan).kv == Bytes{2100 * 32 * kLayerKv});
}

TEST_CASE("A model is on one device whole, its embedding too", "[transformers]") {
  Scenario s = eager();
  const Bytes all{double(s.tensors.bytes())};
  const MemoryPlan on_gpu = plan_memory(s, place(s, 33), 1);
  CHECK(gpu(on_gpu).weights == all);
  CHECK(host(on_gpu).weights == Bytes{});
  // A host that decodes looks rows up as well.
  s.placement.decode_device = DecodeDevice::kCpu;
  const MemoryPlan both = plan_memory(s, place(s, 33), 1);
  CHECK(host(both).weights >= Bytes{double(s.tensors.embedding.bytes())});
}

TEST_CASE("A streamed cache is copied back whole, by more launches", "[transformers]") {
  Scenario s = eager();
  s.kv.policy = KvPolicy::kStream;
  s.rig.links.front().d2h.value = 25_GBps;
  OpTraffic t;
  t.kv_read_bytes = 1e9;
  const Seconds once = gpu_cost(s, 0, t, 1, 0).serial;
  s.runtime.decode.returns_kv = true;
  const Seconds back = Bytes{1e9} / s.rig.links.front().d2h.value;
  CHECK((gpu_cost(s, 0, t, 1, 0).serial - once).value == Approx(back.value));
  OpTraffic small;  // which launches outlast
  small.kv_read_bytes = 1e3;
  small.weight_bytes_by_format[std::size_t(QuantFormat::kF16)] = 1e3;
  small.matmul_flops = 1e3;
  small.tokens_per_weight = 1;
  const auto time = [&] {
    return time_alone(s, operation_cost(s, 0, small, 1, Launches::kAttention), 0);
  };
  const Seconds before = time();
  s.runtime.kernels.offload.value = 10;
  CHECK((time() - before).value == Approx((1.25 * 10 * 3_us).value));
  s.kv.policy = KvPolicy::kVram;
  CHECK(time() < before + 1_us);
}

TEST_CASE("Launches hide behind a GPU's work, and come before the CPU's", "[transformers]") {
  Scenario s = eager();
  OpTraffic t;
  t.weight_bytes_by_format[std::size_t(QuantFormat::kF16)] = 1e6;
  t.matmul_flops = 1e6;
  t.tokens_per_weight = 1;
  // One launch takes 3 us; reading 1 MB at 0.78 of 400 GB/s, and unpacking it, fewer than eight.
  const Seconds launches = 8 * 3_us;
  const OpCost alone = gpu_cost(s, 0, t, 1, 0);
  const Seconds work = time_alone(s, alone, 0);
  REQUIRE(work < launches * 1.25);
  const OpCost cost = gpu_cost(s, 0, t, 1, 8);
  CHECK(time_alone(s, cost, 0).value == Approx((launches * 1.25).value));
  CHECK(time_alone(s, gpu_cost(s, 0, t, 1, 1), 0).value ==
        Approx(std::max(work, 1.25 * 3_us).value));
  s.runtime.kernels.eager = false;
  CHECK(time_alone(s, gpu_cost(s, 0, t, 1, 8), 0).value == Approx((work + launches * 1.25).value));

  const auto on_cpu = [&] {
    return time_alone(s, operation_cost(s, kHost, t, 1, Launches::kAttention), kHost);
  };
  const Seconds without = on_cpu();
  s.runtime.kernels.eager = true;
  CHECK((on_cpu() - without).value == Approx((12 * 3_us).value));
}

TEST_CASE("A launch takes the cycles of the host with which it was measured", "[transformers]") {
  Scenario s = eager();
  const auto clock = [](double hz) { return Sourced<Hertz>{Hertz{hz}, SourceKind::kSpec, "test"}; };
  CHECK(host_clock_factor(s) == 1.0);
  s.rig.cpu.clock = clock(3e9);
  CHECK(host_clock_factor(s) == 1.0);
  for (BackendEfficiency& b : s.runtime.backends) b.launch_clock = clock(2e9);
  CHECK(host_clock_factor(s) == Approx(2.0 / 3.0));
  s.rig.cpu.boost_clock = clock(4e9);
  CHECK(host_clock_factor(s) == 0.5);
  CHECK(gpu_cost(s, 0, {}, 1, 8).overhead.value == Approx((8 * 3_us * 1.25 / 2).value));
  const auto written = load_profile(std::string(kProfile).replace(
      kProfile.find("launch = \"3 us\""), 0, "launch_clock = \"2.5 GHz\"\n"));
  REQUIRE(written);
  CHECK(written->backends[std::size_t(Backend::kCuda)].launch_clock->value == Hertz{2.5e9});
}

TEST_CASE("Grouped keys and values are written out where no kernel takes them", "[transformers]") {
  Scenario s = eager();
  OpTraffic t;
  t.kv_read_bytes = 1000;
  t.kv_write_bytes = 10;
  t.kv_copied_bytes = 300;
  const double moved = 1000 + 10 + 2 * 300;
  const double expanded = moved + 2 * 4 * 1000;  // four query heads share one of the cache
  GpuPart& card = s.rig.gpus.front();
  CHECK(cache_bytes(s, t, &card) == moved);
  s.runtime.decode.expands_kv = true;
  CHECK(cache_bytes(s, t, &card) == expanded);
  s.runtime.decode.grouped_since = year(2025.5);
  CHECK(cache_bytes(s, t, &card) == moved);
  CHECK(cache_bytes(s, t, nullptr) == moved);
  card.architecture = "turing";
  CHECK(cache_bytes(s, t, &card) == expanded);
  card.architecture = "ada";
  s.settings.build_year = 2025.4;
  CHECK(cache_bytes(s, t, &card) == expanded);
  CHECK(cache_bytes(s, t, nullptr) == expanded);
  s.settings.build_year = 2026;
  CHECK(cache_bytes(s, t, &card) == moved);
  s.settings.flash_attention = false;
  CHECK(cache_bytes(s, t, &card) == expanded);
}
