// A step of several sequences.

#include "perfmodel/memory.hpp"
#include "perfmodel/resolve_placement.hpp"
#include "perfmodel/resource_use.hpp"
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

TEST_CASE("The order of a batch's sequences does not matter", "[batch]") {
  const Decode d;
  const Step a = d.step({{100, 1}, {2000, 1}, {5000, 1}});
  const Step b = d.step({{5000, 1}, {100, 1}, {2000, 1}});
  CHECK(d.vram(a) == Approx(d.vram(b)).epsilon(1e-12));
}
