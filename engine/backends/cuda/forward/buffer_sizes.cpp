#include "engine/backends/cuda/forward/buffer_sizes.hpp"

#include <algorithm>

#include "core/scenario/batch_limits.hpp"
#include "engine/kernels/cuda/activations/tile_order.hpp"
#include "engine/kernels/cuda/batch/small_batch_formats.hpp"
#include "engine/model/rope.hpp"

namespace rigcast::engine::cuda {

FfnWidths ffn_widths(const Model& model) {
  FfnWidths widths;
  for (const Layer& l : model.layers) {
    widths.dense = std::max(widths.dense, l.down.columns);
    widths.expert = std::max(widths.expert, l.expert_down.first.columns);
    widths.shared = std::max(widths.shared, l.shared_down.columns);
  }
  return widths;
}

AttentionWidths attention_widths(const Model& model) {
  AttentionWidths widths;
  for (const Layer& l : model.layers) {
    const AttentionShape& a = l.attention;
    widths.q = std::max(widths.q, a.q_width());
    widths.qkv = std::max(widths.qkv, a.q_width() + 2 * a.kv_width());
    widths.heads = std::max<std::int64_t>(widths.heads, a.heads);
  }
  return widths;
}

MixedWidths mixed_widths(const Model& model) {
  MixedWidths widths;
  const auto raise = [](std::int64_t& to, std::int64_t width) { to = std::max(to, width); };
  for (const Layer& l : model.layers) {
    const AttentionShape& a = l.attention;
    if (l.has_attention_gate()) raise(widths.mixed, 2 * a.q_width() + 2 * a.kv_width());
    if (!l.is_recurrent()) continue;
    raise(widths.mixed,
          l.mixer_in.rows + l.mixer_gate.rows + l.mixer_alpha.rows + l.mixer_beta.rows);
    raise(widths.convolved, l.mixer.convolved());
    raise(widths.out, l.mixer_out.columns);
  }
  return widths;
}

LatentSizes latent_sizes(const Model& model) {
  LatentSizes sizes;
  const auto raise = [](std::int64_t& to, std::int64_t width) { to = std::max(to, width); };
  for (const Layer& l : model.layers) {
    if (!l.latent) continue;
    const std::int64_t heads = l.attention.heads;
    raise(sizes.projected, l.q.rows + l.q_a.rows + l.kv_a.rows + l.q_b.rows);
    raise(sizes.values, heads * l.latent.value);
    raise(sizes.input,
          std::max({l.q_a.rows, heads * l.latent.plain, heads * l.latent.rank, sizes.values}));
  }
  return sizes;
}

ActivationSizes activation_sizes(const Model& model, int tokens) {
  const AttentionWidths widths = attention_widths(model);
  const std::int64_t n = tokens;
  const auto tables = std::int64_t(rope_tables(model.hyper, model.rope_factors).size());
  const bool has_experts_beside =
      std::ranges::any_of(model.layers, [](const Layer& l) { return !l.router_norm.empty(); });
  const std::int64_t projected = std::max(
      {widths.qkv, latent_sizes(model).projected, has_experts_beside ? 2 * model.spec.hidden : 0});
  const MixedWidths mixers = mixed_widths(model);
  const std::int64_t inputs = model.input_embedding.columns;
  return {n * model.spec.hidden,
          n * projected,
          tables * n * most_rope_pairs(model.hyper),
          n * widths.q,
          n * mixers.mixed,
          n * mixers.convolved,
          n * inputs,
          std::min(tokens, kOwnInputRows) * inputs};
}

TokenSizes token_sizes(const Model& model, int splits) {
  const AttentionWidths widths = attention_widths(model);
  const ModelSpec& m = model.spec;
  const FfnWidths ffn = ffn_widths(model);
  const std::int64_t of_experts = ffn.expert * (m.moe ? m.moe->experts_used : 0) + ffn.shared;
  const LatentSizes latent = latent_sizes(model);
  return {std::max({widths.q, mixed_widths(model).out, latent.input}),
          std::max({ffn.dense, of_experts, latent.values}), splits * widths.heads,
          splits * widths.q};
}

PrefillSizes prefill_sizes(const Model& model, int tokens) {
  const std::int64_t n = tokens, ffn_hidden = ffn_widths(model).widest();
  return {n * std::max({model.spec.hidden, attention_widths(model).q, latent_sizes(model).input,
                        mixed_widths(model).out, ffn_hidden}),
          2 * n * ffn_hidden};
}

SmallBatchSizes small_batch_sizes(const Model& model, int ubatch, int routed) {
  const ModelSpec& m = model.spec;
  const FfnWidths widths = ffn_widths(model);
  SmallBatchSizes s;
  s.tokens = std::min(ubatch, kMaxSmallBatch);
  if (m.moe && std::ranges::any_of(model.layers, supports_grouped_gemm<Layer>)) {
    s.routed = std::min(ubatch, routed);
    s.choices = std::int64_t(s.routed) * m.moe->experts_used;
    s.ffn_hidden = s.choices * tiled_columns(widths.expert);
    s.experts = s.choices * m.hidden;
    s.router_logits = std::int64_t(s.routed) * m.moe->experts;
  }
  s.gate_out = std::max(s.tokens * std::max(widths.dense, widths.shared),
                        s.choices * tiled_columns(widths.expert));
  return s;
}

}  // namespace rigcast::engine::cuda
