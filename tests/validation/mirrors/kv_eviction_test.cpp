// The engine decides by its own account of memory how much of a cache stays on the GPU, and which
// blocks leave at which step; the forecast replays both rules. Given the same memory both keep the
// same tokens, and at every step the same blocks are cold.
#include "engine/kv/kv_eviction.hpp"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "core/catalogue/catalogue.hpp"
#include "core/runtime/load_profile.hpp"
#include "core/scenario/engine_sizes.hpp"
#include "perfmodel/runtimes/rigcast_kv.hpp"
#include "tests/paths.hpp"
#include "tests/perfmodel/machine_fixture.hpp"

using namespace rigcast;
using namespace rigcast::fixtures;

namespace {

Scenario paged(Bytes vram, TokenCount context, QuantFormat cold) {
  Scenario s = scenario_of(llama_3_8b(), machine(vram), "Q4_K_M");
  auto runtime = load_runtime_profile(test::source_path("/runtimes/rigcast.toml"));
  REQUIRE(runtime);
  s.runtime = *std::move(runtime);
  s.kv.policy = KvPolicy::kPaged;
  s.kv.cold_type = cold;
  s.workload.depth = context / 2;
  s.workload.prompt_tokens = 1024;
  s.workload.output_tokens = 128;
  s.workload.context = context;
  return s;
}

engine::KvBlockBytes block_bytes(const Scenario& s) {
  const auto bytes = [&](KvTypes types) {
    return std::int64_t(double(s.kv.block_tokens) * kv_bytes_per_token(s.model, 0, types));
  };
  return {s.kv.block_tokens, s.model.layers, bytes(s.kv.types), bytes(s.kv.cold_types()),
          s.kv.cold_type != QuantFormat::kF16};
}

// The engine's blocks between steps, counted as DeviceCache::reserve does it.
struct EngineBlocks {
  TokenCount block_tokens, hot;
  TokenCount have = 0, cold = 0, moving = 0;

  void step(TokenCount cached, TokenCount tokens) {
    const TokenCount wanted = (cached + tokens + block_tokens - 1) / block_tokens;
    if (wanted <= have) return;
    cold += std::exchange(moving, 0);
    moving = engine::blocks_to_evict(wanted, cold, hot, cached, block_tokens);
    have = wanted;
  }
};

// A request of `w`: what is in the cache before it and the prompt in batches, the answer by tokens.
template <class Step>
void for_each_step(const Workload& w, TokenCount ubatch, const Step& step) {
  TokenCount cached = 0;
  for (const TokenCount end : {w.depth, w.depth + w.prompt_tokens})
    while (cached < end) {
      const TokenCount tokens = std::min(ubatch, end - cached);
      step(cached, tokens);
      cached += tokens;
    }
  for (; cached < w.last_position(); ++cached) step(cached, 1);
}

// Requests whose batches begin at blocks, and within them; of one batch, and of several.
std::vector<Scenario> requests() {
  std::vector<Scenario> all;
  for (const int ubatch : {512, 500, 64})
    for (const TokenCount depth : {0, 100, 1024, 1030})
      for (const TokenCount prompt : {3, 128, 512, 1500}) {
        Scenario s = paged(24_GiB, 4096, QuantFormat::kF16);
        s.settings.ubatch = ubatch;
        s.workload.depth = depth;
        s.workload.prompt_tokens = prompt;
        s.workload.output_tokens = 400;
        all.push_back(std::move(s));
      }
  return all;
}

}  // namespace

TEST_CASE("Blocks are cold at the steps at which the engine has evicted them",
          "[validation][mirror][kv]") {
  for (const Scenario& s : requests())
    for (const TokenCount hot : {0, 1, 4, 9, 100}) {
      const Workload& w = s.workload;
      EngineBlocks engine{s.kv.block_tokens, hot};
      for_each_step(w, s.settings.ubatch, [&](TokenCount cached, TokenCount tokens) {
        engine.step(cached, tokens);
        const Sequence sequence{cached, tokens, w.depth, w.prompt_tokens};
        const TokenCount cold = cold_block_tokens(s, hot * s.kv.block_tokens, sequence);
        CAPTURE(s.settings.ubatch, w.depth, w.prompt_tokens, hot, cached);
        REQUIRE(cold == engine.cold * s.kv.block_tokens);
      });
    }
}

TEST_CASE("The GPU never holds more blocks than it was planned for", "[validation][mirror][kv]") {
  for (const Scenario& s : requests()) {
    const auto eviction = engine::kv_eviction_of(s);
    REQUIRE(eviction);
    for (const TokenCount hot : {0, 1, 4, 9, 100}) {
      EngineBlocks engine{s.kv.block_tokens, hot};
      TokenCount most = 0;
      for_each_step(s.workload, s.settings.ubatch, [&](TokenCount cached, TokenCount tokens) {
        engine.step(cached, tokens);
        most = std::max(most, engine.have - engine.cold);
      });
      CAPTURE(s.settings.ubatch, s.workload.depth, s.workload.prompt_tokens, hot);
      const TokenCount planned = engine::max_held_blocks(*eviction, hot, s.kv.block_tokens);
      CHECK(most <= planned);
      // Exact if nothing stays. Else the longest batch may come while fewer blocks are there.
      if (hot == 0) CHECK(most == planned);
    }
  }
}

TEST_CASE("The forecast plans for as many blocks as the engine", "[validation][mirror][kv]") {
  for (Scenario s : requests()) {
    CAPTURE(s.settings.ubatch, s.workload.depth, s.workload.prompt_tokens);
    const auto eviction = engine::kv_eviction_of(s);
    s.kv.policy = KvPolicy::kStream;  // nothing stays
    const MemoryPlan plan =
        plan_memory(s, place(s, s.model.layers + 1), s.workload.last_position());
    const double lists = double(s.model.layers) * double(kMaxKvBlocks) * sizeof(void*);
    const double block = s.model.layers * kv_block_bytes(s, 0, s.kv.types);
    CHECK((gpu(plan).kv.value - lists) / block ==
          double(engine::max_held_blocks(*eviction, 0, s.kv.block_tokens)));
  }
}

TEST_CASE("Engine and forecast keep as many tokens on the GPU", "[validation][kv]") {
  for (const double gib : {7.0, 8.0, 9.5})
    for (const TokenCount context : {16'384, 32'768, 131'072})
      for (const QuantFormat cold : {QuantFormat::kF16, QuantFormat::kQ8_0, QuantFormat::kQ4_0}) {
        CAPTURE(gib, context, int(cold));
        const Scenario s = paged(gib * 1_GiB, context, cold);
        const Placement p = place(s, s.model.layers + 1);
        const MemoryPlan plan = plan_memory(s, p, s.workload.last_position());
        const DeviceMemory& gpu = plan.devices.front();
        const engine::KvBlockBytes bytes = block_bytes(s);
        // What the engine holds before the cache is first used: a layer's list of blocks, and a
        // block in which cold ones are quantized on their way out.
        const double others = s.rig.vram_reserved.value.value;
        double held = (gpu.weights + gpu.activations + gpu.overhead).value - others +
                      double(s.model.layers) * double(kMaxKvBlocks) * sizeof(void*);
        if (bytes.converts_type) held += double(bytes.layers) * double(bytes.cold_layer_bytes);
        const double usable = gpu.capacity.value - others;
        const TokenCount blocks =
            engine::hot_blocks(*engine::kv_eviction_of(s), bytes, s.kv.threshold * usable - held);
        const TokenCount all = (context + s.kv.block_tokens - 1) / s.kv.block_tokens;
        REQUIRE(plan.resident_tokens);
        // The engine counts the pointers of the ring as well, less than a block's bytes.
        CHECK(std::abs(std::min(*plan.resident_tokens / s.kv.block_tokens, all) - blocks) <= 1);
      }
}
