// A GPU's buffers of a batch, and whether its products load cuBLAS: what the engine allocates by
// its model's shapes, and what the forecast plans by its tensors.

#include <numeric>

#include "core/scenario/batch_limits.hpp"
#include "core/scenario/engine_sizes.hpp"
#include "engine/backends/cuda/forward/buffer_sizes.hpp"
#include "engine/backends/cuda/forward/joined_matrices.hpp"
#include "engine/kernels/cuda/attention/most_splits.hpp"
#include "engine/kernels/cuda/batch/small_batch_formats.hpp"
#include "engine/placement/prefill_offload.hpp"
#include "perfmodel/runtimes/rigcast_buffers.hpp"
#include "tests/validation/mirrors/mirror_fixture.hpp"

using namespace rigcast;
using namespace rigcast::fixtures;

namespace {

using Matrices = std::initializer_list<const engine::Matrix*>;

std::int64_t elements(Matrices matrices) {
  return std::accumulate(
      matrices.begin(), matrices.end(), std::int64_t(0),
      [](std::int64_t sum, const engine::Matrix* m) { return sum + m->rows * m->columns; });
}

bool all_fp16(Matrices matrices) {
  return std::ranges::all_of(matrices, [](const engine::Matrix* m) {
    return m->rows == 0 || m->format == QuantFormat::kF16;
  });
}

// The largest number of weights that the engine writes out as FP16 for one product.
std::int64_t fp16_weights(const engine::Model& model) {
  std::int64_t most = 0;
  for (const engine::Layer& layer : model.layers)
    engine::cuda::for_each_product(layer, [&](Matrices joined) {
      if (!all_fp16(joined)) most = std::max(most, elements(joined));
    });
  return most;
}

// Bytes that the engine allocates for the buffers of its steps. `splits`: the most of a token's
// attention.
double engine_bytes(const engine::Model& model, int ubatch, int routed, int splits) {
  using namespace engine::cuda;
  constexpr double kId = 4, kDraw = 32 << 10, kF32 = 4, kF16 = 2, kRopeAngle = 2 * kF32;
  constexpr double kQuantized = 1 + kF32 / 32 + kF32 / 16;  // QuantizedActivations
  const ActivationSizes a = activation_sizes(model, ubatch);
  const PrefillSizes p = prefill_sizes(model, ubatch);
  const SmallBatchSizes b = small_batch_sizes(model, ubatch, routed);
  const TokenSizes t = token_sizes(model, splits);
  return double(ubatch + 3 * b.choices) * kId + kDraw +
         double(t.attn_out + t.ffn_hidden) * (kF32 + kQuantized) +
         double(2 * t.partial_heads + t.partial_outputs) * kF32 +
         double(a.hidden) * (2 * kF32 + kQuantized) + double(a.projected) * kF32 +
         double(a.rope_cos_sin) * kRopeAngle + double(a.queries) * kF16 +
         double(p.x + p.ffn_hidden) * kF16 + double(b.gate_out + b.experts) * kF32 +
         double(b.ffn_hidden) * kF16 + double(b.router_logits) * kF32 +
         double(model.spec.vocabulary) * kF32 + double(fp16_weights(model)) * kF16 +
         double(kBlasWorkspaceBytes);
}

// With one part for the host's blocks.
int splits_of(const Scenario& s) {
  const int units = s.rig.gpus.front().units.value_or(0);
  if (s.model.mla) return 1 + engine::cuda::most_latent_splits(s.model.heads, units);
  return 1 +
         engine::cuda::most_attention_splits(s.model.kv_heads, int(s.model.head_dim), units, true);
}

// A dense layer, then experts beside one that all tokens pass.
ModelSpec shared_experts() {
  ModelSpec m = four_layers_of(qwen3_30b_a3b());
  m.architecture = "ernie4_5-moe";
  m.qk_norm = false;
  m.ffn = 12288;
  m.moe->dense_layers = 1;
  m.moe->shared_ffn = 1536;
  m.moe->router_bias = true;
  return m;
}

// The attention of DeepSeek V3, or of V2-Lite, whose queries are not compressed.
ModelSpec latent(std::int64_t q_lora_rank) {
  ModelSpec m = shared_experts();
  m.architecture = "deepseek2";
  m.heads = m.kv_heads = q_lora_rank > 0 ? 128 : 16;
  m.head_dim = 192;
  m.mla = LatentAttention{.q_lora_rank = q_lora_rank,
                          .kv_lora_rank = 512,
                          .qk_nope_dim = 128,
                          .qk_rope_dim = 64,
                          .v_dim = 128};
  return m;
}

const ModelSpec kModels[] = {four_layers_of(llama_3_8b()),
                             four_layers_of(llama_3_2_3b()),
                             four_layers_of(mixtral_8x7b()),
                             four_layers_of(qwen3_30b_a3b()),
                             shared_experts(),
                             latent(1536),
                             latent(0)};

// True if a batch of a prompt multiplies a matrix that is not in quant blocks, or heads of latent
// attention.
bool multiplies_floats(const engine::Model& model) {
  bool floats = model.spec.mla.has_value();
  for (const engine::Layer& layer : model.layers)
    engine::cuda::for_each_product(layer, [&](Matrices joined) {
      for (const engine::Matrix* m : joined)
        floats = floats || (*m && !engine::cuda::supports_small_batch_gemm(m->format));
    });
  return floats;
}

}  // namespace

TEST_CASE("Buffers of a batch are the engine's", "[validation][mirror]") {
  for (const ModelSpec& model : kModels)
    for (const std::string& quant : computed_mixes()) {
      Scenario s = engine_scenario(model, quant.c_str());
      const engine::Model own = engine_model(s);
      for (const int ubatch : {32, 512, 8192}) {
        CAPTURE(model.layers, model.hidden, quant, ubatch);
        s.settings.ubatch = ubatch;
        const Placement all = place(s, model.layers + 1);
        CHECK(engine_buffers(s, all, 0).value ==
              Approx(engine_bytes(own, ubatch, kMaxRoutedTokens, splits_of(s))).epsilon(1e-12));
      }
    }
}

TEST_CASE("More tokens are routed at once where experts are copied", "[validation][mirror]") {
  for (const ModelSpec& model : {kModels[2], kModels[3], kModels[4]})
    for (const std::string& quant : computed_mixes()) {
      CAPTURE(model.hidden, quant);
      Scenario s = engine_scenario(model, quant.c_str());
      s.settings.ubatch = 8192;
      s.placement.cpu_moe_layers = model.layers;
      const engine::Model own = engine_model(s);
      const Placement p = place(s, model.layers + 1);
      const engine::HostPlacement host = engine_placement(s, p);
      bool copies = false;
      for (int l = 0; l < model.layers; ++l)
        copies = copies || (host.experts_offloadable(l) &&
                            engine::cuda::supports_grouped_gemm(own.layers[std::size_t(l)]));
      const int routed = copies ? kMaxRoutedTokensStreamed : kMaxRoutedTokens;
      CHECK(engine_buffers(s, p, 0).value ==
            Approx(engine_bytes(own, 8192, routed, splits_of(s))).epsilon(1e-12));
    }
}

TEST_CASE("cuBLAS is loaded where the engine loads it", "[validation][mirror]") {
  for (const ModelSpec& model : kModels)
    for (const std::string& quant : computed_mixes())
      for (const int ubatch : {16, kMaxSmallBatch, kMaxSmallBatch + 1})
        for (const TokenCount prompt : {engine::kFewTokens, engine::kFewTokens + 1}) {
          CAPTURE(model.hidden, quant, ubatch, prompt);
          Scenario s = engine_scenario(model, quant.c_str());
          s.settings.ubatch = ubatch;
          s.workload.prompt_tokens = prompt;
          const bool in_batches = prompt > engine::kFewTokens;
          const bool loads =
              ubatch > kMaxSmallBatch || (in_batches && multiplies_floats(engine_model(s)));
          const auto kernels = engine_cublas_kernels(s, place(s, model.layers + 1));
          CHECK((kernels != CublasKernels::kNone) == loads);
        }
}
