// A step of several sequences.

#include "perfmodel/memory.hpp"
#include "perfmodel/resolve_placement.hpp"
#include "perfmodel/resource_use.hpp"
#include "perfmodel/runtimes/runtime_models.hpp"
#include "perfmodel/step.hpp"
#include "tests/catch.hpp"
#include "tests/sim/request_steps.hpp"
#include "tests/sim/scenario_fixtures.hpp"

using namespace rigcast;
using fixtures::scenario;

namespace {

struct Decode {
  Scenario s = scenario();
  Placement placement = resolve_placement(s);
  MemoryPlan memory = plan_memory(s, placement, s.workload.context);

  Step step(const std::vector<Sequence>& sequences) const {
    return decode_step(s, placement, memory, Batch{sequences, s.runtime.memory.kv_padding});
  }
  double vram(const Step& step) const {
    return resource_use(s, step).bytes[std::size_t(Resource::kVram)];
  }
};

}  // namespace

TEST_CASE("A single user's token is a batch of one", "[batch]") {
  const Decode d;
  const Step one = d.step({{999, 1}});
  const Step same = fixtures::token_step(d.s, d.placement, d.memory, 1000);
  CHECK(d.vram(one) == d.vram(same));
  CHECK(lower_bound(d.s, one) == lower_bound(d.s, same));
  CHECK(one.logits == same.logits);
}

TEST_CASE("Tokens of several sequences read weights once and every cache", "[batch]") {
  const Decode d;
  const double weights = d.vram(d.step({{0, 1}}));
  const double one = d.vram(d.step({{1023, 1}})), other = d.vram(d.step({{4095, 1}}));
  const double both = d.vram(d.step({{1023, 1}, {4095, 1}}));
  // The second sequence adds only its cache and its activations; weights are read once.
  CHECK(both > std::max(one, other));
  CHECK(both < one + other - 0.9 * weights);
  CHECK(d.step({{1023, 1}, {4095, 1}}).logits == 2.0 * logits_bytes(d.s.model));
  CHECK(d.step({{1023, 1}, {4095, 1}}).sample == 2.0 * d.step({{1023, 1}}).sample);
}

TEST_CASE("Every sequence has a cache of its own, and all share the weights", "[batch][memory]") {
  for (const char* runtime : {"llama.cpp", "transformers", "rigcast"}) {
    CAPTURE(runtime);
    const Scenario s = scenario({{"runtime.name", runtime}});
    const Placement p = place(s, s.model.layers + 1);
    const Workload& w = s.workload;
    const Sequence sequence{1000, 1, w.depth, w.prompt_tokens};
    const DeviceMemory one = plan_memory(s, p, Batch{{sequence}, 1}).devices.front();
    const DeviceMemory two = plan_memory(s, p, Batch{{sequence, sequence}, 1}).devices.front();
    CHECK(one.needed() == plan_memory(s, p, 1001).devices.front().needed());
    CHECK(two.kv == 2.0 * one.kv);
    CHECK(two.weights == one.weights);
    CHECK(two.activations == one.activations);
  }
}

TEST_CASE("Sequences share the VRAM for blocks that stay", "[batch][memory]") {
  for (const char* runtime : {"llama.cpp", "rigcast"}) {
    CAPTURE(runtime);
    Scenario s = scenario({{"runtime.name", runtime}});
    s.kv.policy = KvPolicy::kPaged;
    s.kv.hot_tokens = 0;
    s.workload.prompt_tokens = 64;  // a batch writes a block
    s.workload.context = 16384;
    const Placement p = place(s, s.model.layers + 1);
    // Room for a few thousand tokens.
    const double kv = 6144 * kv_bytes_per_token(s.model, s.kv.types);
    const MemoryPlan all = plan_memory(s, p, 1);
    s.rig.gpus.front().memory.value =
        Bytes{(all.devices.front().needed().value + kv) / s.kv.threshold};
    const Sequence sequence{8000, 1, 0, 64};
    const Batch one{{sequence}, 1}, two{{sequence, sequence}, 1};
    const MemoryPlan with_one = plan_memory(s, p, one), with_two = plan_memory(s, p, two);
    REQUIRE(with_one.resident_tokens.value() > 1024);
    REQUIRE(with_one.resident_tokens.value() < 8000);
    REQUIRE(with_two.resident_tokens.value() > 1024);
    CHECK(with_two.resident_tokens.value() <= with_one.resident_tokens.value());
    CHECK(with_two.devices.front().needed() <= s.rig.gpus.front().memory.value);
    const RuntimeModel& rules = runtime_model(s.runtime);
    const TokenCount cold = rules.cold_tokens(s, with_two, two);
    CHECK(cold > 2 * rules.cold_tokens(s, with_one, one));
    // Of each sequence the resident share stays, and up to two blocks that are being written.
    const TokenCount stays = 2 * 8001 - cold;
    CHECK(stays >= with_two.resident_tokens.value() - 2 * s.kv.block_tokens);
    CHECK(stays <= with_two.resident_tokens.value() + 4 * s.kv.block_tokens);
  }
}

TEST_CASE("A paged cache is decoded in a recorded graph while no block is cold", "[batch]") {
  Scenario s = scenario({{"runtime.name", "rigcast"}});
  s.kv.policy = KvPolicy::kPaged;
  s.workload.context = 16384;
  const Placement p = place(s, s.model.layers + 1);
  MemoryPlan memory = plan_memory(s, p, s.workload.context);
  const auto are_recorded = [&](TokenCount cached) {
    const Batch both{{{cached, 1}, {cached, 1}}, 1};
    const Step step = decode_step(s, p, memory, both);
    const bool recorded = step.ops.front().in_graph;
    for (const StepOp& op : step.ops) CHECK(op.in_graph == recorded);
    return recorded;
  };
  memory.resident_tokens = std::nullopt;  // all fits
  CHECK(are_recorded(8000));
  memory.resident_tokens = 4096;  // of both
  CHECK(are_recorded(1000));
  CHECK_FALSE(are_recorded(8000));
  s.kv.policy = KvPolicy::kStream;
  CHECK_FALSE(are_recorded(1000));
}

TEST_CASE("The order of a batch's sequences does not matter", "[batch]") {
  const Decode d;
  const Step a = d.step({{100, 1}, {2000, 1}, {5000, 1}});
  const Step b = d.step({{5000, 1}, {100, 1}, {2000, 1}});
  CHECK(d.vram(a) == Approx(d.vram(b)).epsilon(1e-12));
}
