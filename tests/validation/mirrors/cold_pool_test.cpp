// A server's pool of blocks some of which are in RAM: the engine divides it by its own account of
// memory, the forecast by its plan. Given the same memory both have the same blocks in VRAM.
#include <limits>

#include "core/scenario/engine_sizes.hpp"
#include "engine/backends/cuda/batch/pool_size.hpp"
#include "tests/paths.hpp"
#include "tests/validation/mirrors/mirror_fixture.hpp"

using namespace rigcast;
using namespace rigcast::fixtures;

namespace {

Scenario served(Bytes vram, KvPolicy policy) {
  Scenario s = scenario_of(llama_3_8b(), machine(vram), "Q4_K_M");
  auto runtime = load_runtime_profile(test::source_path("/runtimes/rigcast.toml"));
  REQUIRE(runtime);
  s.runtime = *std::move(runtime);
  s.kv.policy = policy;
  s.workload.context = 8192;
  s.load.emplace();
  s.scheduler.emplace();
  s.scheduler->block_tokens = 32;
  s.scheduler->sequences = 16;
  s.scheduler->pool = PoolRule::kTokens;
  s.settings.op_offload = false;
  return s;
}

}  // namespace

TEST_CASE("A pool has the blocks in VRAM that the engine keeps there", "[validation][mirror]") {
  constexpr int kBlocks = 16 * 8192 / 32;
  const engine::PoolBlockBytes bytes{4 << 20, 0, 128 << 10, 32};  // of Llama 3 8B
  for (const KvPolicy policy : {KvPolicy::kStream, KvPolicy::kPaged})
    for (const Bytes vram : {8_GiB, 12_GiB, 20_GiB, 48_GiB}) {
      CAPTURE(int(policy), vram.value);
      const Scenario s = served(vram, policy);
      const MemoryPlan plan = plan_memory(s, place(s, 33), 8192);
      const DeviceMemory& gpu = plan.devices.front();
      // What the engine finds when it makes its pool.
      const double list = double(kMaxKvBlocks) * sizeof(void*);
      const double others = (gpu.needed() - gpu.kv - gpu.staging).value + list;
      const double usable = (gpu.capacity - gpu.overhead).value;
      const double left = std::max((512_MiB).value, 0.05 * usable);
      const engine::KvEviction cold =
          policy == KvPolicy::kStream ? engine::KvEviction{.hot_tokens = 0} : engine::KvEviction{};
      const engine::PoolSize pool =
          engine::pool_of(kBlocks, cold, 32, bytes,
                          {gpu.capacity.value - others - left, std::numeric_limits<double>::max()});
      CHECK(gpu.kv.value == (pool.on_gpu + 1) * bytes.of_gpu + list);
      CHECK(gpu.staging.value == engine::cold_ring_bytes(bytes, pool.cold));
      CHECK(plan.devices.back().kv.value == pool.cold * bytes.of_gpu);
      CHECK(plan.resident_tokens.value_or(0) == TokenCount(pool.on_gpu) * 32);
      if (policy == KvPolicy::kPaged && vram < 20_GiB) CHECK(pool.cold > 0);
    }
}
