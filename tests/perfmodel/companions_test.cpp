// What llama.cpp loads beside a model: a vision projector, and a draft model.
#include "perfmodel/context/companions.hpp"

#include "perfmodel/memory.hpp"
#include "perfmodel/resolve_placement.hpp"
#include "tests/catch.hpp"
#include "tests/sim/scenario_fixtures.hpp"

using namespace rigcast;
using fixtures::scenario;
using fixtures::Settings;

namespace {

MemoryPlan memory(const Scenario& s) {
  return plan_memory(s, resolve_placement(s), s.workload.context);
}

const Settings kDraft{{"draft.name", "llama-3.2-1b"}, {"draft.quant", "Q8_0"}};

Scenario with_projector(const Settings& settings, bool on_gpu) {
  Scenario s = scenario(settings);
  s.projector = Projector{"mmproj.gguf", 1_GiB, on_gpu};
  return s;
}

}  // namespace

TEST_CASE("A projector is on the first GPU, or in RAM", "[memory][llama.cpp]") {
  const Settings two{{"rig.gpu", "[\"2xrtx-3060-12gb\"]"}};
  for (const Settings& settings : {Settings{}, two, Settings{{"rig.gpu", "[]"}}}) {
    const Scenario s = scenario(settings);
    for (const bool offload : {true, false}) {
      const MemoryPlan without = memory(s), with = memory(with_projector(settings, offload));
      const bool on_gpu = offload && !s.rig.gpus.empty();
      for (std::size_t d = 0; d < with.devices.size(); ++d) {
        const bool here = on_gpu ? d == 0 : d + 1 == with.devices.size();
        INFO("device " << d << " of " << with.devices.size() << ", offload " << offload);
        CHECK((with.devices[d].needed() - without.devices[d].needed()).value ==
              (here ? (1_GiB).value : 0.0));
      }
    }
  }
}

TEST_CASE("A projector in RAM is no pages of a mapped file, which may leave it",
          "[memory][llama.cpp]") {
  // Of Q8_0 this CPU has no layout of its own, into which weights would be copied.
  const Settings small{{"rig.gpu", "[]"}, {"rig.ram_capacity", "4 GiB"}, {"model.quant", "Q8_0"}};
  const MemoryPlan without = memory(scenario(small)), with = memory(with_projector(small, false));
  REQUIRE(without.outside_ram > 0_B);
  CHECK((with.outside_ram - without.outside_ram).value == Approx((1_GiB).value));
}

TEST_CASE("A draft model takes what it takes alone, with the same context and a cache in F16",
          "[memory][llama.cpp]") {
  const Settings small_cache{{"kv.type_k", "q8_0"}, {"kv.type_v", "q8_0"}};
  for (const char* const context : {"2048", "8192"}) {
    const Settings settings = fixtures::with(small_cache, {{"workload.context", context}});
    const MemoryPlan without = memory(scenario(settings));
    const MemoryPlan with = memory(scenario(fixtures::with(settings, kDraft)));
    const Scenario alone_s = scenario({{"model.name", "llama-3.2-1b"},
                                       {"model.quant", "Q8_0"},
                                       {"placement.gpu_layers", "99"},
                                       {"workload.context", context}});
    const MemoryPlan alone = memory(alone_s);
    for (std::size_t d = 0; d < 2; ++d) {
      INFO("device " << d << ", context " << context);
      const DeviceMemory &more = with.devices[d], &less = without.devices[d];
      CHECK((more.weights - less.weights).value == Approx(alone.devices[d].weights.value));
      CHECK((more.kv - less.kv).value == Approx(alone.devices[d].kv.value));
      CHECK((more.activations - less.activations).value ==
            Approx(alone.devices[d].activations.value));
      CHECK(more.overhead.value == less.overhead.value);  // one process
    }
    // 16 layers of 8 KV heads of 64 values, keys and values, 2 bytes each.
    CHECK(alone.devices[0].kv.value == 2.0 * 16 * 8 * 64 * 2 * std::stod(context));
  }
}

TEST_CASE("A draft model's cache is in RAM where the model's is", "[memory][llama.cpp]") {
  const Settings in_ram{{"kv.policy", "ram"}};
  const MemoryPlan without = memory(scenario(in_ram));
  const MemoryPlan with = memory(scenario(fixtures::with(in_ram, kDraft)));
  CHECK(with.devices[0].kv.value == without.devices[0].kv.value);
  CHECK((with.devices[1].kv - without.devices[1].kv).value == 2.0 * 16 * 8 * 64 * 2 * 8192);
}

TEST_CASE("A draft model is split over GPUs as the model is", "[memory][llama.cpp]") {
  const auto second = [](const Settings& more) {
    const Settings two{{"rig.gpu", "[\"2xrtx-3060-12gb\"]"}, {"placement.tensor_split", "[1, 0]"}};
    return memory(scenario(fixtures::with(two, more))).devices[1].weights.value;
  };
  CHECK(second({}) == 0);
  CHECK(second(kDraft) == 0);
  CHECK(second(fixtures::with(kDraft, {{"placement.tensor_split", "[1, 1]"}})) >
        second({{"placement.tensor_split", "[1, 1]"}}));
}

TEST_CASE("Layers that fit become fewer for a draft model", "[memory][llama.cpp]") {
  const Settings full{{"placement.gpu_layers", "auto"}, {"rig.vram_capacity", "7 GiB"}};
  const int without = resolve_placement(scenario(full)).gpu_layers;
  const int with = resolve_placement(scenario(fixtures::with(full, kDraft))).gpu_layers;
  CHECK(with > 0);
  CHECK(with < without);
}

TEST_CASE("A scenario says what of its draft model is not forecast", "[scenario]") {
  const auto notes = notes_on_companions(scenario(kDraft));
  REQUIRE(notes.size() == 1);
  CHECK(notes[0].find("speeds are those without speculation") != std::string::npos);
  CHECK(notes_on_companions(scenario()).empty());
}

TEST_CASE("Runtimes without a draft model or a projector refuse them by name", "[scenario]") {
  for (const char* const runtime : {"rigcast", "transformers"}) {
    CHECK_THROWS_WITH(scenario(fixtures::with(kDraft, {{"runtime.name", runtime}})),
                      Catch::Contains(std::string(runtime) + " takes no draft model"));
    CHECK_THROWS_WITH(scenario({{"runtime.name", runtime}, {"model.mmproj", "m.gguf"}}),
                      Catch::Contains(std::string(runtime) + " takes no vision projector"));
  }
}
