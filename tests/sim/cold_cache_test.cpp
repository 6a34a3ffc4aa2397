#include <cmath>

#include "perfmodel/cost/operation.hpp"
#include "perfmodel/memory.hpp"
#include "perfmodel/resolve_placement.hpp"
#include "perfmodel/runtimes/rigcast_kv.hpp"
#include "perfmodel/runtimes/rigcast_policy.hpp"
#include "perfmodel/runtimes/runtime_models.hpp"
#include "perfmodel/serial_time.hpp"
#include "tests/catch.hpp"
#include "tests/sim/request_steps.hpp"
#include "tests/sim/scenario_fixtures.hpp"

using namespace rigcast;
using fixtures::scenario;
using fixtures::Settings;
using fixtures::token_step;
using fixtures::with;

namespace {

constexpr double kBlock = 128.0 * 4096;  // bytes of an 8B model's layer
const Settings kOwn = {{"runtime.name", "rigcast"}};
const Settings kCombined = with(kOwn, {{"kv.policy", "combined"}});

ColdSplit split_of(const Scenario& s, double blocks) {
  // 32 heads of 128 elements; a key and a value of 8 heads are 4 KiB.
  const double flops = 4.0 * 32 * 128 * 128 * blocks;
  return split_blocks(s, resolve_placement(s), 0, 0, flops, blocks * kBlock);
}

Seconds link_time(const Scenario& s, double bytes) {
  return Bytes{bytes} / (s.rig.links[0].h2d.value * s.runtime.decode.stream_share.value);
}

// The last host operation that attends to a cache, in a token after so many.
double host_reading(const Scenario& s, TokenCount cached) {
  const Placement p = resolve_placement(s);
  const Step step = token_step(s, p, plan_memory(s, p, s.workload.context), cached);
  double equivalent_bytes = 0;
  for (const StepOp& op : step.ops)
    if (op.kind == ActivityKind::kCacheAttention) equivalent_bytes = op.cost.equivalent_bytes.value;
  return equivalent_bytes;
}

}  // namespace

TEST_CASE("Every copy of cold blocks starts late, of small layers once for several", "[cold]") {
  Scenario s = scenario(kOwn);
  s.runtime.decode.copy_start.value = Seconds{10e-6};
  CHECK(cold_block_copy_start(s, 0, 0) == Seconds{});
  // 100 blocks are seven pieces of 16, and more than the ring takes of two layers at once.
  CHECK(cold_block_copy_start(s, 0, 100 * kBlock).value == Approx(70e-6));
  // Four layers of eight blocks are a group.
  CHECK(cold_block_copy_start(s, 0, 8 * kBlock).value == Approx(10e-6 / 4));
  const Scenario other = scenario();
  CHECK(runtime_model(other.runtime).cold_copy_start(other, 0, 100 * kBlock) == Seconds{});
}

TEST_CASE("What the link brings while the GPU does the rest of a layer is not the host's",
          "[cold]") {
  const Scenario s = scenario(kCombined);
  CHECK(split_of(s, 1).on_cpu == 0);
  const ColdSplit split = split_of(s, 200);
  REQUIRE(split.on_cpu > 0);
  CHECK(std::fmod(split.on_cpu, kBlock) == 0);
  CHECK(split.on_cpu >= kMinHostGain * 200 * kBlock);
  // The link is busy for longer than the host, which waits for the queries: by less than a token's
  // layer takes.
  StepOp host;
  host.cost = split.cost;
  const Seconds link = link_time(s, 200 * kBlock - split.on_cpu), on_cpu = time_alone(s, host);
  CHECK(link > on_cpu);
  CHECK(link < on_cpu + Seconds{2e-3});
  CHECK(split_of(scenario(with(kOwn, {{"kv.policy", "paged"}})), 200).on_cpu == 0);
}

TEST_CASE("The last-level cache keeps what tokens read again, if that is not much", "[cold]") {
  Scenario s = scenario(with(kOwn, {{"kv.policy", "ram"}}));
  s.runtime.cpu.llc_capacity_factor = Sourced<double>{3, SourceKind::kAssumed, {}};
  s.runtime.cpu.llc_kv_speedup = Sourced<double>{2, SourceKind::kAssumed, {}};
  const double from_memory = host_reading(s, 4000);
  const double read = 4000 * 131072.0;  // of all layers
  const auto with_cache = [&](double bytes) {
    s.rig.cpu.last_level = Sourced<Bytes>{Bytes{bytes}, SourceKind::kMeasured, {}};
    return host_reading(s, 4000);
  };
  CHECK(with_cache(read * 1.1) == Approx(from_memory / 2));
  CHECK(with_cache(read / 2) == Approx(from_memory * 0.75).epsilon(1e-3));
  CHECK(with_cache(read / 3.1) == Approx(from_memory));
}

TEST_CASE("The last-level cache keeps weights as well, which come less fast", "[cold]") {
  Scenario s = scenario(with(kOwn, {{"placement.gpu_layers", "32"}}));  // the head is the host's
  s.runtime.cpu.llc_capacity_factor = Sourced<double>{3, SourceKind::kAssumed, {}};
  s.runtime.cpu.llc_weight_speedup = Sourced<double>{1.5, SourceKind::kAssumed, {}};
  const Placement p = resolve_placement(s);
  const auto head = [&] {
    return token_step(s, p, plan_memory(s, p, s.workload.context), 100).ops.back().cost;
  };
  const OpCost from_memory = head();
  s.rig.cpu.last_level = Sourced<Bytes>{from_memory.bytes * 1.1, SourceKind::kMeasured, {}};
  CHECK(head().equivalent_bytes.value == Approx(from_memory.equivalent_bytes.value / 1.5));
  s.rig.cpu.last_level = Sourced<Bytes>{from_memory.bytes / 3.1, SourceKind::kMeasured, {}};
  CHECK(head().equivalent_bytes.value == Approx(from_memory.equivalent_bytes.value));
}

TEST_CASE("Logits that a GPU leaves to the host take time to look through", "[cold]") {
  Scenario s = scenario(with(kOwn, {{"placement.gpu_layers", "32"}}));
  s.runtime.decode.host_logit.value = Seconds{1e-9};
  const auto sample = [&] {
    const Placement p = resolve_placement(s);
    return token_step(s, p, plan_memory(s, p, s.workload.context), 100).sample;
  };
  const Seconds base = s.runtime.decode.sample.value;
  CHECK(sample().value == Approx(base.value + 128256e-9));
  s.placement.gpu_layers = 33;
  CHECK(sample().value == Approx(base.value));
}
