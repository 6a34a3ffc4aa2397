// An example of adding a runtime, which is a class.

#include "perfmodel/runtimes/runtime_models.hpp"

#include <cmath>
#include <set>

#include "perfmodel/memory.hpp"
#include "perfmodel/runtimes/contiguous_cache.hpp"
#include "tests/catch.hpp"
#include "tests/perfmodel/machine_fixture.hpp"

using namespace rigcast;
using namespace rigcast::fixtures;

namespace {

// A server that takes a share of VRAM at its start, and gives it to sequences in blocks.
class PoolServer : public ContiguousCache {
 public:
  void add_cache(const MemoryContext& s, const Placement& p, const Batch&,
                 MemoryPlan& plan) const override {
    for (std::size_t g = 0; g + 1 < plan.devices.size(); ++g) {
      DeviceMemory& gpu = plan.devices[g];
      const Bytes room = gpu.capacity * 0.9 - gpu.needed();
      double block = 0;  // bytes, of all layers of this GPU
      for (int l = 0; l < s.model.layers; ++l)
        if (p.layers[std::size_t(l)].kv == DeviceIndex(g))
          block += 16 * kv_bytes_per_token(s.model, l, s.kv.types);
      if (block > 0 && room.value > 0) gpu.kv = Bytes{block * std::floor(room.value / block)};
    }
  }

 protected:
  TokenCount cells(const MemoryContext&, TokenCount cached) const override { return cached; }
};

}  // namespace

TEST_CASE("Every name of rules has rules of its own", "[runtimes]") {
  std::set<const RuntimeModel*> models;
  std::size_t rules = 0;
  for (; !name(RuntimeRules(rules)).empty(); ++rules) {
    CAPTURE(name(RuntimeRules(rules)));
    RuntimeProfile profile;
    profile.rules = RuntimeRules(rules);
    CHECK(models.insert(&runtime_model(profile)).second);
    CHECK(models.contains(&runtime_model(profile)));
  }
  CHECK(rules > 1);
}

TEST_CASE("A runtime of another kind is a class with the rules that differ", "[runtimes]") {
  const Scenario s = scenario_of(llama_3_8b(), machine(), "Q4_K_M");
  const Placement p = place(s, 33);
  MemoryPlan plan = plan_memory(s, p, 1);
  const Bytes others = gpu(plan).needed() - gpu(plan).kv;
  plan.devices.front().kv = {};
  PoolServer().add_cache(s, p, Batch(1, 1), plan);
  // Whole blocks of 16 tokens of 128 KiB, up to nine tenths of 24 GiB.
  const double block = 16.0 * 131072;
  CHECK(gpu(plan).needed() <= 0.9 * 24_GiB);
  CHECK(gpu(plan).kv.value > (0.9 * 24_GiB - others).value - block);
  CHECK(std::fmod(gpu(plan).kv.value, block) == 0);
}
