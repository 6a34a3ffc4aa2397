#include "engine/model/model.hpp"

#include <algorithm>
#include <utility>

namespace rigcast::engine {

LatentShape latent_shape(const ModelSpec& spec) {
  if (!spec.mla) return {};
  const LatentAttention& a = *spec.mla;
  return {a.kv_lora_rank, a.qk_nope_dim, a.qk_rope_dim, a.v_dim};
}

// Kernels count tokens as int; a negative number of them is something else to a GPU's.
constexpr TokenCount kMaxWindow = 1 << 30;

AttentionShape attention_shape(const ModelSpec& spec, int layer) {
  if (const LatentShape latent = latent_shape(spec)) return {spec.heads, 1, latent.row(), 0};
  const bool all = spec.sees_all_tokens(layer);
  return {spec.heads, spec.kv_heads_of(layer), spec.head_dim_of(layer),
          all ? 0 : std::min(spec.window->tokens, kMaxWindow),
          !all && spec.architecture == "llama4"};
}

int kv_layer_of(const ModelSpec& spec, int layer) {
  int at = layer;
  while (at > 0 && (!spec.has_kv(at) || spec.sees_all_tokens(at) != spec.sees_all_tokens(layer)))
    --at;
  return at;
}

bool Layer::has_parallel_ffn() const {
  return !uses(ops, LayerWeight::kFfnNorm) && std::ranges::any_of(ops, [](const LayerOp& op) {
    return op.in == Activation::kNormed && op.out == Activation::kBranch;
  });
}

bool Layer::has_parallel_mixer() const {
  const auto at = std::ranges::find_if(ops, [](const LayerOp& op) {
    return op.kind == OpKind::kLinear && op.weights.front() == LayerWeight::kMixerIn;
  });
  return at != ops.end() && at != ops.begin() && at->in == Activation::kNormed &&
         (at - 1)->out != Activation::kNormed;
}

bool Layer::norms_values() const {
  return std::ranges::any_of(ops, [](const LayerOp& op) {
    return op.kind == OpKind::kHeadRmsNorm && op.out == Activation::kValue;
  });
}

void choose_rope_factors(Model& model, TokenCount tokens) {
  if (model.long_rope_factors.empty()) return;
  const TokenCount longest = tokens > 0 ? tokens : model.spec.context;
  if (double(longest) > double(model.hyper.rope_context))
    model.rope_factors = std::exchange(model.long_rope_factors, {});
}

}  // namespace rigcast::engine
