// The edge of memory, to the byte.
#include <fmt/format.h>

#include "perfmodel/max_context.hpp"
#include "perfmodel/memory.hpp"
#include "perfmodel/resolve_placement.hpp"
#include "tests/catch.hpp"
#include "tests/sim/scenario_fixtures.hpp"

using namespace rigcast;
using fixtures::scenario;
using fixtures::Settings;
using fixtures::with;

namespace {

Settings vram(Bytes capacity) {
  return {{"rig.vram_capacity", fmt::format("{:.0f} B", capacity.value)}};
}

MemoryPlan plan(const Scenario& s, const Placement& p) {
  return plan_memory(s, p, s.workload.last_position() + 1);
}
MemoryPlan plan(const Scenario& s) { return plan(s, resolve_placement(s)); }

// What GPU 0 needs with the given settings on a card that is large enough.
Bytes need(const Settings& settings) {
  return plan(scenario(with(settings, vram(Bytes{1e12})))).devices.front().needed();
}

}  // namespace

TEST_CASE("33 layers fit into exactly what they need and not into a byte less", "[fit]") {
  const Settings all = {{"placement.gpu_layers", "33"}};
  const Bytes needed = need(all);
  REQUIRE(needed.value == std::floor(needed.value));
  const MemoryPlan exact = plan(scenario(with(all, vram(needed))));
  CHECK(exact.fits());
  CHECK(exact.devices.front().free().value == 0);
  const MemoryPlan short_of_one = plan(scenario(with(all, vram(needed - 1_B))));
  CHECK_FALSE(short_of_one.fits());
  REQUIRE(short_of_one.shortest() != nullptr);
  CHECK(short_of_one.shortest()->device == "GPU 0");
  CHECK(short_of_one.shortest()->free().value == -1);
}

TEST_CASE("automatic placement drops a layer for want of one byte, and keeps the head", "[fit]") {
  const Settings automatic = {{"placement.gpu_layers", "\"auto\""}};
  const Bytes needed = need({{"placement.gpu_layers", "33"}});
  CHECK(resolve_placement(scenario(with(automatic, vram(needed)))).gpu_layers == 33);
  const Scenario smaller = scenario(with(automatic, vram(needed - 1_B)));
  const Placement placement = resolve_placement(smaller);
  CHECK(placement.gpu_layers == 32);
  CHECK(placement.layers[0].weights == kHost);
  CHECK(placement.layers[1].weights == 0);
  CHECK(placement.head == 0);
  CHECK(plan(smaller, placement).fits());
}

TEST_CASE("in builds before 2025-12 the head is the last to go to the GPU", "[fit]") {
  const auto placed = [](const char* build, int gpu_layers) {
    const Scenario s = scenario({{"runtime.build", std::string("\"") + build + "\""}});
    return place(s, gpu_layers);
  };
  for (const int n : {1, 20, 32}) {
    const Placement older = placed("2025-11", n), newer = placed("2026-01", n);
    CHECK(older.head == kHost);
    CHECK(newer.head == 0);
    const auto on_gpu = [](const Placement& p) {
      return std::ranges::count(p.layers, 0, &LayerPlacement::weights);
    };
    CHECK(on_gpu(older) == n);
    CHECK(on_gpu(newer) == n - 1);
  }
  CHECK(placed("2025-11", 33).layers == placed("2026-01", 33).layers);
  CHECK(placed("2025-11", 33).head == 0);
}

TEST_CASE("automatic placement drops a layer for want of one byte at every layer", "[fit]") {
  for (const int layers : {32, 20, 1}) {
    const Settings fixed = {{"placement.gpu_layers", std::to_string(layers)}};
    const Bytes needed = need(fixed);
    const Settings automatic = {{"placement.gpu_layers", "\"auto\""}};
    CHECK(resolve_placement(scenario(with(automatic, vram(needed)))).gpu_layers == layers);
    CHECK(resolve_placement(scenario(with(automatic, vram(needed - 1_B)))).gpu_layers ==
          layers - 1);
  }
}

TEST_CASE("two GPUs each drop their own layers", "[fit]") {
  const Settings two = {{"rig.gpu", "[\"2xrtx-3060-12gb\"]"}, {"placement.gpu_layers", "33"}};
  const Scenario roomy = scenario(with(two, vram(Bytes{1e12})));
  const MemoryPlan both = plan(roomy);
  const Bytes most = std::max(both.devices[0].needed(), both.devices[1].needed());
  CHECK(plan(scenario(with(two, vram(most)))).fits());
  CHECK_FALSE(plan(scenario(with(two, vram(most - 1_B)))).fits());
}

TEST_CASE("without a GPU the model fits into RAM to the byte", "[fit]") {
  const auto with_ram = [](Bytes capacity) {
    return scenario({{"placement.gpu_layers", "0"},
                     {"runtime.mmap", "false"},
                     {"rig.ram_reserved", "1 GiB"},
                     {"rig.ram_capacity", fmt::format("{:.0f} B", capacity.value)}});
  };
  const Bytes needed = plan(with_ram(Bytes{1e12})).devices.back().needed();
  CHECK(plan(with_ram(needed)).fits());
  CHECK_FALSE(plan(with_ram(needed - 1_B)).fits());
}

TEST_CASE("with one byte less a block of the paged cache leaves VRAM", "[fit]") {
  // At a threshold of 1 the last block fits when VRAM holds it to the byte.
  const Settings paged = {
      {"runtime.name", "rigcast"}, {"kv.policy", "paged"}, {"kv.threshold", "1.0"}};
  const auto resident = [&](double capacity) {
    return *plan(scenario(with(paged, vram(Bytes{capacity})))).resident_tokens;
  };
  const TokenCount block = scenario(paged).kv.block_tokens;
  double too_small = 6.2e9, enough = 12e9;
  const TokenCount some = resident(too_small);
  REQUIRE(some > 0);
  REQUIRE(resident(enough) > some);
  while (enough - too_small > 1) {
    const double middle = std::floor((too_small + enough) / 2);
    (resident(middle) > some ? enough : too_small) = middle;
  }
  const Scenario s = scenario(with(paged, vram(Bytes{enough})));
  const MemoryPlan exact = plan_memory(s, resolve_placement(s), s.workload.context);
  CHECK(exact.devices.front().free().value == 0);
  CHECK(*exact.resident_tokens % block == 0);
  CHECK(resident(enough - 1) == some);
}

TEST_CASE("the driver spills from the first byte that is missing", "[fit]") {
  const Settings spill = {{"kv.policy", "spill"}};
  const Bytes needed = need({{"kv.policy", "vram"}});
  const MemoryPlan exact = plan(scenario(with(spill, vram(needed))));
  REQUIRE(exact.spilled.size() == 1);
  CHECK(exact.spilled.front().of_kv == 0);
  CHECK(exact.spilled.front().of_weights == 0);
  const Scenario smaller = scenario(with(spill, vram(needed - 1_B)));
  const MemoryPlan over = plan(smaller);
  CHECK(over.fits());
  // One byte of the cache, which is 1 / bytes of it.
  const double cache = kv_bytes(smaller.model, smaller.workload.context, smaller.kv.types);
  CHECK(over.spilled.front().of_kv == Approx(1 / cache).epsilon(1e-9));
  CHECK(over.spilled.front().of_weights == 0);
  CHECK(over.devices.back().staging.value == exact.devices.back().staging.value + 1);
}

TEST_CASE("the longest context fits and one padding step more does not", "[fit]") {
  for (const char* runtime : {"llama.cpp", "rigcast"}) {
    Scenario s = scenario({{"runtime.name", runtime}});
    const Placement p = resolve_placement(s);
    const TokenCount longest = max_context(s, p, s.model.context);
    REQUIRE(longest > 0);
    REQUIRE(longest < s.model.context);
    s.workload.context = longest;
    CHECK(plan_memory(s, p, longest).fits());
    s.workload.context = longest + s.runtime.memory.kv_padding;
    CHECK_FALSE(plan_memory(s, p, s.workload.context).fits());
  }
}

TEST_CASE("automatic placement leaves the headroom, and stated layers may use it", "[fit]") {
  const Settings all = {{"placement.gpu_layers", "33"}};
  const Settings automatic = {{"placement.gpu_layers", "\"auto\""}, {"runtime.headroom", "1 GiB"}};
  const Bytes needed = need(all);
  CHECK(resolve_placement(scenario(with(automatic, vram(needed + 1_GiB)))).gpu_layers == 33);
  CHECK(resolve_placement(scenario(with(automatic, vram(needed + 1_GiB - 1_B)))).gpu_layers == 32);
  CHECK(plan(scenario(with(with(all, {{"runtime.headroom", "1 GiB"}}), vram(needed)))).fits());
}

TEST_CASE("experts leave the GPU before layers do, and no more of them than have to", "[fit]") {
  const Settings moe = {{"model.name", "qwen3-30b-a3b"},
                        {"placement.gpu_layers", "\"auto\""},
                        {"rig.gpu", "rtx-5060-ti-16gb"}};
  const Scenario s = scenario(moe);
  const Placement p = resolve_placement(s);
  CHECK(p.gpu_layers == s.model.layers + 1);
  REQUIRE(p.cpu_moe_layers > 0);
  CHECK(plan(s, p).fits());
  CHECK_FALSE(plan(s, place(s, p.gpu_layers, p.cpu_moe_layers - 1)).fits());
  // On request, whole layers.
  const Placement plain =
      resolve_placement(scenario(with(moe, {{"placement.cpu_moe_layers", "0"}})));
  CHECK(plain.cpu_moe_layers == 0);
  CHECK(plain.gpu_layers < s.model.layers);
  // Where all experts in RAM are not enough, layers follow.
  const Placement tiny = resolve_placement(scenario(with(moe, vram(Bytes{2.2e9}))));
  CHECK(tiny.cpu_moe_layers == s.model.layers);
  CHECK(tiny.gpu_layers <= s.model.layers);
}

TEST_CASE("on several GPUs, the fewest experts leave, and each GPU is filled", "[fit]") {
  const Settings two = {{"model.name", "gpt-oss-120b"},
                        {"placement.gpu_layers", "\"auto\""},
                        {"rig.gpu", "[\"rtx-3090\", \"rtx-3060-12gb\"]"},
                        {"rig.ram", "2xddr4-3200:64GiB"}};
  const Scenario s = scenario(two);
  const Placement p = resolve_placement(s);
  CHECK(p.gpu_layers == s.model.layers + 1);
  REQUIRE(p.cpu_moe_layers > 0);
  CHECK(plan(s, p).fits());
  // With one layer's experts less in RAM, no place of the boundary between the GPUs fits.
  Scenario split = s;
  for (int first = 0; first <= s.model.layers + 1; ++first) {
    split.placement.tensor_split = {double(first), double(s.model.layers + 1 - first)};
    CHECK_FALSE(plan(split, place(split, p.gpu_layers, p.cpu_moe_layers - 1)).fits());
  }
  // Where everything fits, layers are split by memory, as without experts.
  const Scenario roomy = scenario(with(two, {{"rig.gpu", "[\"h100-sxm\", \"rtx-3090\"]"}}));
  const Placement whole = resolve_placement(roomy);
  CHECK(whole.cpu_moe_layers == 0);
  CHECK(whole.layers == place(roomy, s.model.layers + 1, 0).layers);
}
