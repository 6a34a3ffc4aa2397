// Choices that the forecast repeats from the engine's code.

#include "perfmodel/runtimes/rigcast_policy.hpp"

#include "core/scenario/batch_limits.hpp"
#include "engine/backends/cuda/kv/cpu_gpu_kv_split.hpp"
#include "engine/kernels/cuda/activations/tile_order.hpp"
#include "engine/kernels/cuda/matvec/many_rows.hpp"
#include "engine/placement/prefill_offload.hpp"
#include "perfmodel/blocks/wave_quantization.hpp"
#include "tests/validation/mirrors/mirror_fixture.hpp"

using namespace rigcast;
using namespace rigcast::fixtures;

TEST_CASE("The forecast's thresholds are the engine's", "[validation][mirror]") {
  CHECK(kFewTokens == engine::kFewTokens);
  CHECK(kMinHostGain == engine::CpuGpuKvSplit::kMinHostGain);
  for (const int units : {28, 82, 132}) {
    CAPTURE(units);
    const auto many = std::int64_t(kManyRowsOfUnit * units);
    CHECK(engine::cuda::has_many_rows(many, units));
    CHECK_FALSE(engine::cuda::has_many_rows(many - 1, units));
  }
  const Scenario s = engine_scenario(llama_3_8b(), "Q4_K_M");
  REQUIRE(s.runtime.blocks);
  CHECK(s.runtime.blocks->fp16_from_batch.value == kMaxSmallBatch + 1);
  CHECK(s.runtime.blocks->wide->until_batch.value == engine::cuda::kMaxTiledTokens);
  CHECK(s.runtime.blocks->wide->tokens.value ==
        engine::cuda::tiled_tokens(engine::cuda::kMaxTiledTokens));
}

TEST_CASE("The host is timed with as many tokens as the engine times it", "[validation][mirror]") {
  for (const ModelSpec& model : {llama_3_8b(), mixtral_8x7b(), qwen3_30b_a3b()})
    for (const TokenCount ubatch : {1, 32, 100, 512, 4096}) {
      CAPTURE(model.hidden, ubatch);
      CHECK(timed_tokens(model, ubatch) == engine::timed_tokens(model, ubatch));
    }
}
