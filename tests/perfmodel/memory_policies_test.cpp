// Where the cache and what does not fit go: RAM, blocks, the driver's spill, one pool, several
// GPUs.

#include "perfmodel/max_context.hpp"
#include "perfmodel/memory.hpp"
#include "perfmodel/resolve_placement.hpp"
#include "tests/catch.hpp"
#include "tests/perfmodel/machine_fixture.hpp"

using namespace rigcast;
using namespace rigcast::fixtures;

namespace {

MemoryPlan plan_of(const Scenario& s, TokenCount cached = 1) {
  return plan_memory(s, place(s, s.model.layers + 1), cached);
}

// A card that has room for 8 GiB of weights and buffers, and not for the long context's cache.
Scenario long_context(KvPolicy policy) {
  Scenario s = scenario_of(llama_3_8b(), machine(12_GiB), "Q8_0");
  s.workload.context = 65536;
  s.workload.prompt_tokens = 512;
  s.workload.output_tokens = 65000;
  s.kv.policy = policy;
  return s;
}

}  // namespace

TEST_CASE("A cache in RAM leaves VRAM to the weights", "[memory]") {
  const MemoryPlan plan = plan_of(long_context(KvPolicy::kRam));
  CHECK(gpu(plan).kv == 0_B);
  CHECK(host(plan).kv == 8_GiB);
  CHECK(plan.fits());
}

TEST_CASE("A streamed cache is in RAM and passes through a ring in VRAM", "[memory]") {
  Scenario s = long_context(KvPolicy::kStream);
  s.runtime.decode.prefetch_depth = 3;
  const MemoryPlan plan = plan_of(s);
  CHECK(host(plan).kv == 8_GiB);
  CHECK(gpu(plan).staging == 3.0 * 8_GiB / 32.0);
  s.kv.prefetch = false;
  CHECK(gpu(plan_of(s)).staging == 8_GiB / 32.0);
}

TEST_CASE("Paged: whole blocks stay below the threshold, and one more would not", "[memory]") {
  Scenario s = long_context(KvPolicy::kPaged);
  s.kv.block_tokens = 128;
  s.kv.threshold = 0.9;
  const MemoryPlan plan = plan_of(s, 65536);
  REQUIRE(plan.resident_tokens);
  const TokenCount resident = *plan.resident_tokens;
  CHECK(resident > 1000);
  CHECK(resident < 65536);
  CHECK(resident % 128 == 0);
  const double per_token = 131072;
  CHECK(gpu(plan).kv.value == double(resident) * per_token);
  const double usable = (12_GiB - 300_MiB).value;
  const double taken = (gpu(plan).needed() - 300_MiB).value;
  CHECK(taken <= 0.9 * usable);
  CHECK(taken + 128 * per_token > 0.9 * usable);
  CHECK(plan.fits());
}

TEST_CASE("Paged: what has left VRAM is in RAM, in the cold type", "[memory]") {
  Scenario s = long_context(KvPolicy::kPaged);
  s.kv.cold_type = QuantFormat::kQ4_0;
  const MemoryPlan early = plan_of(s, 1024);
  CHECK(gpu(early).kv.value == 1024 * 131072.0);
  CHECK(host(early).kv == 0_B);
  const MemoryPlan late = plan_of(s, 65536);
  const double cold = 65536.0 - double(*late.resident_tokens);
  CHECK(host(late).kv.value == Approx(cold * 131072 * 4.5 / 16));
  CHECK(*early.resident_tokens == *late.resident_tokens);
}

TEST_CASE("Paged: layers with a window stay where they are, once", "[memory]") {
  ModelSpec m = llama_3_8b();
  m.window = SlidingWindow{.tokens = 1024, .full_every = 2};
  Scenario s = scenario_of(m, machine(12_GiB), "Q8_0");
  s.workload.context = 65536;
  s.workload.output_tokens = 65000;
  s.kv.policy = KvPolicy::kPaged;
  s.kv.threshold = 0.8;
  const MemoryPlan plan = plan_of(s, 65536);
  REQUIRE(*plan.resident_tokens < 65536);
  const double per_layer = 131072 / 32.0;
  // The window, and an ubatch of 512.
  CHECK(gpu(plan).kv.value ==
        Approx(16 * per_layer * (double(*plan.resident_tokens) + 1024 + 512)));
  CHECK(host(plan).kv.value == Approx(16 * per_layer * (65536 - double(*plan.resident_tokens))));
}

TEST_CASE("Spill: the driver moves the cache first, then weights, and nothing is lost",
          "[memory]") {
  const MemoryPlan full = plan_of(long_context(KvPolicy::kVram));
  REQUIRE_FALSE(full.fits());
  const MemoryPlan spilled = plan_of(long_context(KvPolicy::kSpill));
  REQUIRE(spilled.spilled.size() == 1);
  CHECK(gpu(spilled).free().value == Approx(0.0).margin(1.0));
  CHECK(spilled.fits());
  const double over = -gpu(full).free().value;
  CHECK(spilled.spilled[0].of_kv == Approx(over / full.devices[0].kv.value));
  CHECK(spilled.spilled[0].of_weights == 0.0);
  CHECK(host(spilled).needed().value - host(full).needed().value == Approx(over));
}

TEST_CASE("Spill: when the whole cache has gone, weights follow", "[memory]") {
  Scenario s = long_context(KvPolicy::kSpill);
  s.rig.gpus[0].memory.value = 6_GiB;
  const MemoryPlan plan = plan_of(s);
  CHECK(plan.spilled[0].of_kv == 1.0);
  CHECK(plan.spilled[0].of_weights > 0.0);
  CHECK(plan.spilled[0].of_weights < 1.0);
  CHECK(gpu(plan).kv == 0_B);
}

TEST_CASE("Spill: a card that has room keeps everything", "[memory]") {
  Scenario s = long_context(KvPolicy::kSpill);
  s.rig.gpus[0].memory.value = 24_GiB;
  const MemoryPlan plan = plan_of(s);
  CHECK(plan.spilled[0].of_kv == 0.0);
  CHECK(gpu(plan).kv == 8_GiB);
}

TEST_CASE("In one pool, what the GPU holds is not there for the host", "[memory]") {
  Scenario s = scenario_of(llama_3_8b(), machine(32_GiB), "Q8_0");
  s.rig.gpus[0].unified = true;
  s.rig.gpus[0].gpu_share.value = 0.75;
  s.rig.ram.capacity.value = 32_GiB;
  s.rig.vram_reserved.value = 0_B;
  s.rig.gpu_context.value = 0_B;
  const MemoryPlan plan = plan_of(s);
  CHECK(gpu(plan).capacity == 24_GiB);
  CHECK(host(plan).capacity + gpu(plan).needed() == 32_GiB);
  CHECK(plan.fits());
  s.rig.ram.capacity.value = 10_GiB;  // a share of 7.5 GiB for 8 GB of weights
  const MemoryPlan tight = plan_of(s);
  CHECK_FALSE(tight.fits());
  CHECK(gpu(tight).free() < 0_B);
}

TEST_CASE("Two GPUs share the layers by what each can hold", "[memory]") {
  Scenario s = scenario_of(llama_2_7b(), machine(24_GiB, 2));
  const MemoryPlan even = plan_of(s);
  CHECK(gpu(even, 0).kv == 1_GiB);
  CHECK(gpu(even, 1).kv == 1_GiB);
  CHECK(gpu(even, 1).weights > gpu(even, 0).weights);  // the head comes last
  s.placement.tensor_split = {3, 1};
  const MemoryPlan split = plan_of(s);
  CHECK(gpu(split, 0).kv / gpu(split, 1).kv == Approx(25 / 7.0));  // of 33: the head is one
  s.placement.tensor_split = {1, 0};
  const MemoryPlan one = plan_of(s);
  CHECK(gpu(one, 1).weights == 0_B);
  CHECK(gpu(one, 1).kv == 0_B);
}

TEST_CASE("Automatic placement puts as many layers on the GPU as fit, and not one more",
          "[memory]") {
  for (const Bytes vram : {4_GiB, 8_GiB, 12_GiB, 15_GiB, 24_GiB}) {
    const Scenario s = scenario_of(llama_2_7b(), machine(vram));
    const Placement p = resolve_placement(s);
    const auto gpu_free = [&](int layers) {
      return gpu(plan_memory(s, place(s, layers), s.workload.last_position() + 1)).free();
    };
    INFO(vram / 1_GiB << " GiB give " << p.gpu_layers);
    CHECK(gpu_free(p.gpu_layers) >= 0_B);
    if (p.gpu_layers < 33) CHECK(gpu_free(p.gpu_layers + 1) < 0_B);
  }
  CHECK(resolve_placement(scenario_of(llama_2_7b())).gpu_layers == 33);
  CHECK(resolve_placement(scenario_of(llama_2_7b(), machine(1_GiB))).gpu_layers == 0);
}

TEST_CASE("A placement that was asked for is taken even where it does not fit", "[memory]") {
  Scenario s = scenario_of(llama_2_7b(), machine(4_GiB));
  s.placement.gpu_layers = 33;
  CHECK(resolve_placement(s).gpu_layers == 33);
  CHECK_FALSE(plan_memory(s, resolve_placement(s), 1).fits());
}

TEST_CASE("The longest context fits, and the next one does not", "[memory]") {
  Scenario s = scenario_of(llama_3_8b(), machine(12_GiB), "Q8_0");
  const Placement p = place(s, 33);
  const TokenCount longest = max_context(s, p, 131072);
  CHECK(longest > 4096);
  CHECK(longest < 131072);
  s.workload.context = longest;
  CHECK(plan_memory(s, p, longest).fits());
  s.workload.context = longest + 1;
  CHECK_FALSE(plan_memory(s, p, longest + 1).fits());
  CHECK(max_context(s, p, 100) == 100);
  s.rig.gpus[0].memory.value = 4_GiB;
  CHECK(max_context(s, p, 131072) == 0);
}
