#include "perfmodel/memory.hpp"

#include "perfmodel/runtimes/contiguous_cache.hpp"
#include "tests/catch.hpp"
#include "tests/perfmodel/machine_fixture.hpp"

using namespace rigcast;
using namespace rigcast::fixtures;

namespace {

MemoryPlan plan_of(const Scenario& s, int gpu_layers, TokenCount cached = 1) {
  return plan_memory(s, place(s, gpu_layers), cached);
}

Bytes sum(const MemoryPlan& plan, Bytes DeviceMemory::*item) {
  Bytes total;
  for (const DeviceMemory& d : plan.devices) total += d.*item;
  return total;
}

}  // namespace

TEST_CASE("The cache is taken whole at load, in multiples of the padding", "[memory]") {
  Scenario s = scenario_of(llama_2_7b());
  // 32 layers x 2 x 32 heads x 128 x 2 B x 4096 tokens = 2 GiB.
  CHECK(gpu(plan_of(s, 33, 1)).kv == 2_GiB);
  CHECK(gpu(plan_of(s, 33, 4096)).kv == 2_GiB);
  s.workload.context = 4095;
  CHECK(gpu(plan_of(s, 33)).kv == 2_GiB);
  s.workload.context = 4097;
  CHECK(gpu(plan_of(s, 33)).kv == 2_GiB * (4352.0 / 4096.0));
  s.workload.context = 4096;
  s.kv.types = {QuantFormat::kQ8_0, QuantFormat::kQ8_0};
  CHECK(gpu(plan_of(s, 33)).kv == 2_GiB * (8.5 / 16.0));
}

TEST_CASE("A cache that grows by copying follows the tokens", "[memory]") {
  Scenario s = scenario_of(llama_2_7b());
  s.runtime.rules = RuntimeRules::kTransformers;
  CHECK(gpu(plan_of(s, 33, 1024)).kv == 0.5 * 1_GiB);
  CHECK(gpu(plan_of(s, 33, 2048)).kv == 1_GiB);
}

TEST_CASE("Every weight is somewhere once, whatever the split", "[memory]") {
  const Scenario s = scenario_of(llama_2_7b());
  for (const int layers : {0, 1, 16, 31, 32, 33}) {
    const MemoryPlan plan = plan_of(s, layers);
    INFO(layers << " layers on the GPU");
    CHECK(sum(plan, &DeviceMemory::weights).value == Approx(double(s.tensors.bytes())));
    CHECK(sum(plan, &DeviceMemory::kv) == 2_GiB);
  }
}

TEST_CASE("The last layers go to the GPU first, and the head only with one more", "[memory]") {
  const Scenario s = scenario_of(llama_2_7b());
  const double layer = double(s.tensors.layers[0].bytes());
  const double head = double(s.tensors.head.bytes());
  const double embedding = 32000.0 * 4096 * 2;
  CHECK(gpu(plan_of(s, 10)).weights.value == 10 * layer);
  CHECK(gpu(plan_of(s, 10)).kv == 2_GiB * (10 / 32.0));
  CHECK(gpu(plan_of(s, 32)).weights.value == 32 * layer);
  CHECK(host(plan_of(s, 32)).weights.value == embedding + head);
  CHECK(gpu(plan_of(s, 33)).weights.value == 32 * layer + head);
  CHECK(host(plan_of(s, 33)).weights.value == embedding);
  CHECK(host(plan_of(s, 33)).kv == 0_B);
}

TEST_CASE("Tied embeddings are stored a second time where the head is on the GPU", "[memory]") {
  const Scenario s = scenario_of(llama_3_2_3b());
  REQUIRE(s.tensors.head_is_embedding);
  const double embedding = 128256.0 * 3072 * 2;
  const double once = sum(plan_of(s, 28), &DeviceMemory::weights).value;
  const double twice = sum(plan_of(s, 29), &DeviceMemory::weights).value;
  CHECK(once == Approx(double(s.tensors.bytes())).epsilon(1e-4));
  CHECK(twice - once == Approx(embedding).epsilon(1e-4));
  CHECK(host(plan_of(s, 29)).weights.value == embedding);
}

TEST_CASE("Experts asked to stay in RAM do, and only theirs", "[memory]") {
  Scenario s = scenario_of(mixtral_8x7b(), machine(96_GiB), "Q4_K_M");
  const double experts = double(s.tensors.layers[3].experts.bytes());
  const Bytes all = gpu(plan_of(s, 33)).weights;
  s.placement.cpu_moe_layers = 4;
  double first_four = 0;
  for (std::size_t l = 0; l < 4; ++l) first_four += double(s.tensors.layers[l].experts.bytes());
  CHECK(gpu(plan_of(s, 33)).weights.value == Approx(all.value - first_four));
  CHECK(sum(plan_of(s, 33), &DeviceMemory::weights).value == Approx(double(s.tensors.bytes())));
  s.placement.cpu_moe_layers = 32;
  CHECK(gpu(plan_of(s, 33)).weights.value < all.value - 31 * 0.9 * experts);
  CHECK(gpu(plan_of(s, 33)).kv == gpu(plan_of(scenario_of(mixtral_8x7b()), 33)).kv);
}

TEST_CASE("A program that uses a GPU takes more RAM itself", "[memory]") {
  Scenario s = scenario_of(llama_2_7b());
  const Bytes with = host(plan_of(s, 33)).staging, without = host(plan_of(s, 0)).staging;
  s.runtime.memory.process_gpu = 600_MiB;
  CHECK(host(plan_of(s, 33)).staging == with + 600_MiB);
  CHECK(host(plan_of(s, 0)).staging == without);
}

TEST_CASE("A dense layer's FFN may be in RAM, its cache stays", "[memory]") {
  Scenario s = scenario_of(llama_2_7b());
  s.runtime.prefill.streams = true;
  const MemoryPlan before = plan_of(s, 33);
  s.placement.cpu_ffn_layers = 10;
  const double ffns = 10 * double(s.tensors.layers[0].ffn.bytes());
  CHECK(gpu(plan_of(s, 33)).weights.value == Approx(gpu(before).weights.value - ffns));
  CHECK(host(plan_of(s, 33)).weights.value == Approx(host(before).weights.value + ffns));
  CHECK(gpu(plan_of(s, 33)).kv == gpu(before).kv);
  // One matrix at a time passes through VRAM while prompts are computed there, beside the hidden
  // state, what an FFN computes and the mask.
  const Bytes matrix{double(s.model.hidden) * double(s.model.ffn) * 2};
  CHECK(gpu(plan_of(s, 33)).activations == 8_MiB + 43_MiB + 4_MiB + matrix);
}

TEST_CASE("A compute buffer is as large as its largest stage", "[memory]") {
  Scenario s = scenario_of(llama_2_7b());
  // 512 rows: hidden 8 MiB; FFN 512 x 4 x 11008 x 2 = 43 MiB and a mask of 512 x 4096 x 2 = 4 MiB.
  CHECK(compute_buffer(s, false) == 8_MiB + 43_MiB + 4_MiB);
  // Logits of 512 x 32000 x 4 = 62.5 MiB are larger.
  CHECK(compute_buffer(s, true) == 8_MiB + 62.5 * 1_MiB);
  // Without flash attention the scores are written out: 32 x 4096 x 512 x 4 = 256 MiB, with
  // q, k, v of 512 x 96 x 128 x 4 = 24 MiB and a mask of twice the width.
  s.settings.flash_attention = false;
  CHECK(compute_buffer(s, true) == 8_MiB + 256_MiB + 24_MiB + 8_MiB);
  s.settings.flash_attention = true;
  s.settings.ubatch = 256;
  CHECK(compute_buffer(s, true) == 4_MiB + 31.25 * 1_MiB);
}

TEST_CASE("The program takes its own memory", "[memory]") {
  Scenario s = scenario_of(llama_2_7b());
  const Bytes before = plan_of(s, 0).devices.back().staging;
  s.runtime.memory.process = 30_MiB;
  CHECK(plan_of(s, 0).devices.back().staging - before == 30_MiB);
}

TEST_CASE("How many rows of logits there are is the runtime's choice", "[memory]") {
  Scenario s = scenario_of(llama_2_7b());
  s.workload.prompt_tokens = 4000;
  s.runtime.memory.logits = LogitsRows::kPrompt;
  CHECK(compute_buffer(s, true) == 8_MiB + Bytes{4000.0 * 32000 * 4});
  s.runtime.memory.logits = LogitsRows::kLast;
  CHECK(compute_buffer(s, true) == compute_buffer(s, false));
}

TEST_CASE("Every device's items add up to its total, and with the free part to its size",
          "[memory]") {
  for (const int layers : {0, 7, 33}) {
    const MemoryPlan plan = plan_of(scenario_of(llama_2_7b()), layers);
    REQUIRE(plan.devices.size() == 2);
    for (const DeviceMemory& d : plan.devices) {
      CHECK(d.needed() == d.weights + d.kv + d.activations + d.staging + d.overhead);
      CHECK(d.total() == d.needed() + d.page_cache);
      CHECK(d.needed() + d.free() == d.capacity);
      CHECK(d.total() <= d.capacity);
    }
    CHECK(gpu(plan).capacity == 24_GiB);
    CHECK(host(plan).capacity == 64_GiB);
  }
}

TEST_CASE("An idle GPU gives up only what others have reserved", "[memory]") {
  const MemoryPlan plan = plan_of(scenario_of(llama_2_7b()), 0);
  CHECK(gpu(plan).needed() == 300_MiB);
  CHECK(gpu(plan_of(scenario_of(llama_2_7b()), 1)).overhead == 700_MiB);
  CHECK(host(plan).overhead == 2_GiB);
}

TEST_CASE("A model that fits exactly fits; with one byte less it does not", "[memory]") {
  Scenario s = scenario_of(llama_2_7b());
  const Bytes need = gpu(plan_of(s, 33)).needed();
  s.rig.gpus[0].memory.value = need;
  CHECK(plan_of(s, 33).fits());
  CHECK(plan_of(s, 33).shortest() == nullptr);
  s.rig.gpus[0].memory.value = need - 1_B;
  const MemoryPlan plan = plan_of(s, 33);
  CHECK_FALSE(plan.fits());
  REQUIRE(plan.shortest());
  CHECK(plan.shortest()->device == "GPU 0");
  CHECK(plan.shortest()->free() == -1_B);
}

TEST_CASE("The device that lacks most is the one that is named", "[memory]") {
  Scenario s = scenario_of(llama_2_7b());
  s.rig.gpus[0].memory.value = 8_GiB;
  s.rig.ram.capacity.value = 2_GiB;
  const MemoryPlan plan = plan_of(s, 33);
  REQUIRE(plan.shortest());
  CHECK(plan.shortest()->device == "GPU 0");
  CHECK(plan.shortest()->free() < host(plan).free());
}

TEST_CASE("The page cache takes what is left of RAM, and never more than the file", "[memory]") {
  Scenario s = scenario_of(llama_2_7b());
  const Bytes file{double(s.tensors.bytes())};
  CHECK(host(plan_of(s, 33)).page_cache == file - host(plan_of(s, 33)).weights);
  s.runtime.memory.maps_file = false;
  CHECK(host(plan_of(s, 33)).page_cache == file);
  s.rig.ram.capacity.value = 6_GiB;
  CHECK(host(plan_of(s, 33)).page_cache == host(plan_of(s, 33)).free());
  CHECK(host(plan_of(s, 33)).total() == 6_GiB);
}

TEST_CASE("Blocks for speculation are in the file, and not loaded", "[memory]") {
  ModelSpec with_draft = llama_2_7b();
  with_draft.nextn_layers = 1;
  const Scenario s = scenario_of(with_draft);
  const Scenario without = scenario_of(llama_2_7b());
  CHECK(s.tensors.speculation.bytes() > 0);
  CHECK(s.tensors.bytes() == without.tensors.bytes() + s.tensors.speculation.bytes());
  for (const int layers : {1, 33}) {
    CHECK(gpu(plan_of(s, layers)).weights == gpu(plan_of(without, layers)).weights);
    CHECK(host(plan_of(s, layers)).weights == host(plan_of(without, layers)).weights);
  }
}
