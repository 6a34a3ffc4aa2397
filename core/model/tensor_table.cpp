#include "core/model/tensor_table.hpp"

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <string_view>

#include "core/model/tensor_writer.hpp"

namespace rigcast {
namespace {

using Writer = TensorWriter;
using Role = TensorRole;

bool is_one_of(std::string_view name, std::initializer_list<std::string_view> names) {
  return std::ranges::find(names, name) != names.end();
}

// Norm vectors of a block, in the order in which architectures with more of them add them: each
// converter has its own names for the same places.
std::string norm_name(std::string_view architecture, int index) {
  using Names = std::array<std::string_view, 4>;
  const auto name_in = [index](const Names& names) {
    const auto i = std::size_t(index);
    return i < names.size() && !names[i].empty() ? std::string(names[i])
                                                 : "norm_" + std::to_string(index + 1);
  };
  if (architecture == "falcon") return name_in({"attn_norm", "attn_norm_2"});
  if (is_one_of(architecture, {"olmo2", "exaone4"}))
    return name_in({"post_attention_norm", "post_ffw_norm"});
  if (is_one_of(architecture,
                {"gpt-oss", "glm4moe", "qwen3next", "qwen35", "qwen35moe", "seed_oss"}))
    return name_in({"attn_norm", "post_attention_norm"});
  return name_in({"attn_norm", "ffn_norm", "post_attention_norm", "post_ffw_norm"});
}

void write_norms(const ModelSpec& m, int first, int end, Writer& w) {
  for (int i = first; i < end; ++i) w.norm(norm_name(m.architecture, i), m.hidden);
}

void write_qkv(const ModelSpec& m, int layer, Writer& w) {
  const std::int64_t q = m.heads * m.head_dim_of(layer) * (m.attention_gate ? 2 : 1);
  const std::int64_t kv = m.kv_heads_of(layer) * m.head_dim_of(layer);
  if (m.fused_qkv) {
    w.matrix(Role::kAttentionQKV, "attn_qkv", m.hidden, q + 2 * kv);
    if (m.qkv_bias) w.bias("attn_qkv", q + 2 * kv);
    return;
  }
  const bool has_v = !(m.window && m.window->full_key_is_value && m.sees_all_tokens(layer));
  w.matrix(Role::kAttentionQ, "attn_q", m.hidden, q);
  w.matrix(Role::kAttentionK, "attn_k", m.hidden, kv);
  if (has_v) w.matrix(Role::kAttentionV, "attn_v", m.hidden, kv);
  if (!m.qkv_bias) return;
  w.bias("attn_q", q);
  w.bias("attn_k", kv);
  if (has_v) w.bias("attn_v", kv);
}

void write_qk_norms(const ModelSpec& m, int layer, Writer& w) {
  if (!m.qk_norm) return;
  const std::int64_t head = m.head_dim_of(layer);
  w.vector(Role::kNorm, "attn_q_norm", m.qk_norm_wide ? m.heads * head : head);
  w.vector(Role::kNorm, "attn_k_norm", m.qk_norm_wide ? m.kv_heads_of(layer) * head : head);
}

void write_head_attention(const ModelSpec& m, int layer, Writer& w) {
  write_qkv(m, layer, w);
  write_qk_norms(m, layer, w);
  if (m.attention_sinks) w.vector(Role::kBias, "attn_sinks", m.heads);
  w.matrix(Role::kAttentionOutput, "attn_output", m.heads * m.head_dim_of(layer), m.hidden);
  if (m.output_bias) w.bias("attn_output", m.hidden);
}

void write_latent_queries(const ModelSpec& m, const LatentAttention& a, Writer& w) {
  const std::int64_t q = m.heads * (a.qk_nope_dim + a.qk_rope_dim);
  if (a.q_lora_rank == 0) return w.matrix(Role::kAttentionQ, "attn_q", m.hidden, q);
  w.matrix(Role::kProjection, "attn_q_a", m.hidden, a.q_lora_rank);
  w.norm("attn_q_a_norm", a.q_lora_rank);
  w.matrix(Role::kProjection, "attn_q_b", a.q_lora_rank, q);
}

void write_latent_attention(const ModelSpec& m, const LatentAttention& a, Writer& w) {
  write_latent_queries(m, a, w);
  w.matrix(Role::kProjection, "attn_kv_a_mqa", m.hidden, a.kv_lora_rank + a.qk_rope_dim);
  w.norm("attn_kv_a_norm", a.kv_lora_rank);
  w.matrix(Role::kProjection, "attn_k_b", a.qk_nope_dim, a.kv_lora_rank, m.heads);
  w.matrix(Role::kProjection, "attn_v_b", a.kv_lora_rank, a.v_dim, m.heads);
  w.matrix(Role::kAttentionOutput, "attn_output", m.heads * a.v_dim, m.hidden);
}

void write_attention(const ModelSpec& m, int layer, Writer& w) {
  if (m.mla) return write_latent_attention(m, *m.mla, w);
  write_head_attention(m, layer, w);
}

// Several matrices of a mixer are modelled as one of the residual's width; the rest of a row, and
// what is never quantised, as one vector.
void write_recurrent_mixer(const ModelSpec& m, Writer& w) {
  const std::int64_t quantised = m.recurrent->layer_parameters - m.recurrent->layer_f32_parameters;
  const std::int64_t rows = quantised / m.hidden;
  const std::int64_t rest = m.recurrent->layer_f32_parameters + quantised % m.hidden;
  if (rows > 0) w.matrix(Role::kRecurrent, "recurrent_mixer", m.hidden, rows);
  if (rest > 0) w.vector(Role::kRecurrent, "recurrent_vectors", rest);
}

void write_dense_ffn(const ModelSpec& m, Writer& w) {
  const bool separate_gate = m.gated_ffn && !m.fused_gate_up;
  const std::int64_t up = m.gated_ffn && m.fused_gate_up ? 2 * m.ffn : m.ffn;
  if (separate_gate) w.matrix(Role::kFfnGate, "ffn_gate", m.hidden, m.ffn);
  w.matrix(Role::kFfnUp, "ffn_up", m.hidden, up);
  w.matrix(Role::kFfnDown, "ffn_down", m.ffn, m.hidden);
  if (!m.ffn_bias) return;
  if (separate_gate) w.bias("ffn_gate", m.ffn);
  w.bias("ffn_up", up);
  w.bias("ffn_down", m.hidden);
}

void write_router(const ModelSpec& m, Writer& w) {
  w.matrix(Role::kRouter, "ffn_gate_inp", m.hidden, m.moe->experts);
  // Biased experts have a biased router; elsewhere the bias only corrects which experts win.
  if (!m.moe->router_bias) return;
  if (m.moe->expert_bias) return w.bias("ffn_gate_inp", m.moe->experts);
  if (m.architecture == "hy_v3") return w.plain_bias("exp_probs_b", m.moe->experts);
  w.bias("exp_probs_b", m.moe->experts);
}

void write_shared_expert(const ModelSpec& m, Writer& w) {
  const std::int64_t ffn = m.moe->shared_ffn;
  if (ffn == 0) return;
  if (m.moe->shared_gate) w.vector(Role::kRouter, "ffn_gate_inp_shexp", m.hidden);
  if (m.gated_ffn) w.matrix(Role::kSharedGate, "ffn_gate_shexp", m.hidden, ffn);
  w.matrix(Role::kSharedUp, "ffn_up_shexp", m.hidden, ffn);
  w.matrix(Role::kSharedDown, "ffn_down_shexp", ffn, m.hidden);
}

void write_experts(const ModelSpec& m, Writer& w) {
  const std::int64_t ffn = m.moe->expert_ffn;
  const std::int64_t n = m.moe->experts;
  if (m.gated_ffn) w.matrix(Role::kExpertGate, "ffn_gate_exps", m.hidden, ffn, n);
  w.matrix(Role::kExpertUp, "ffn_up_exps", m.hidden, ffn, n);
  w.matrix(Role::kExpertDown, "ffn_down_exps", ffn, m.hidden, n);
  if (!m.moe->expert_bias) return;
  if (m.gated_ffn) w.bias("ffn_gate_exps", ffn, n);
  w.bias("ffn_up_exps", ffn, n);
  w.bias("ffn_down_exps", m.hidden, n);
}

void write_mixers(const ModelSpec& m, int layer, Writer& w) {
  write_norms(m, 0, std::min(1, m.norms_per_layer), w);
  if (m.has_attention(layer)) write_attention(m, layer, w);
  if (m.has_recurrent_mixer(layer)) write_recurrent_mixer(m, w);
}

// Additional tensors of a few architectures.
void write_block_extras(const ModelSpec& m, Writer& w) {
  if (m.layer_embedding > 0) {
    w.matrix(Role::kProjection, "inp_gate", m.hidden, m.layer_embedding);
    w.matrix(Role::kProjection, "proj", m.layer_embedding, m.hidden);
    w.norm("post_norm", m.hidden);
  }
  if (m.layer_scale) w.vector(Role::kNorm, "layer_output_scale", 1);
}

void write_block(const ModelSpec& m, int layer, LayerWeights& weights, Writer& w) {
  const bool mixes = m.has_attention(layer) || m.has_recurrent_mixer(layer);
  w.enter(layer, weights.attention);
  if (mixes) write_mixers(m, layer, w);
  w.enter(layer, weights.ffn);
  write_norms(m, mixes ? 1 : 0, m.norms_per_layer, w);
  write_block_extras(m, w);
  if (!m.has_ffn(layer)) return;
  if (!m.is_moe_layer(layer)) return write_dense_ffn(m, w);
  write_router(m, w);
  write_shared_expert(m, w);
  w.enter(layer, weights.experts);
  write_experts(m, w);
}

// A block that drafts the token after the next: a last block behind a projection of its input.
void write_nextn_block(const ModelSpec& m, int layer, WeightGroup& group, Writer& w) {
  w.enter(layer, group);
  w.matrix(Role::kProjection, "nextn.eh_proj", 2 * m.hidden, m.hidden);
  for (const auto name : {"nextn.enorm", "nextn.hnorm", "nextn.shared_head_norm"})
    w.norm(name, m.hidden);
  write_norms(m, 0, m.norms_per_layer, w);
  write_attention(m, layer, w);
  if (m.moe) {
    write_router(m, w);
    write_shared_expert(m, w);
    write_experts(m, w);
  } else {
    write_dense_ffn(m, w);
  }
  if (!m.nextn_embeddings) return;
  w.matrix(Role::kProjection, "nextn.embed_tokens", m.hidden, m.vocabulary);
  w.matrix(Role::kProjection, "nextn.shared_head_head", m.hidden, m.vocabulary);
}

void write_embedding(const ModelSpec& m, TensorTable& table, Writer& w) {
  w.enter(-1, table.embedding);
  w.matrix(Role::kTokenEmbedding, "token_embd", m.hidden, m.vocabulary);
  if (m.layer_embedding > 0)
    w.matrix(Role::kTokenEmbedding, "per_layer_token_embd", m.layers * m.layer_embedding,
             m.vocabulary);
}

void write_rope_factors(const ModelSpec& m, Writer& w) {
  const bool wide = m.window && m.window->full_head_dim > 0;
  if (m.rope_freqs)
    w.vector(Role::kRope, "rope_freqs", (wide ? m.window->full_head_dim : m.head_dim) / 2);
  if (m.rope_factors == 0) return;
  w.vector(Role::kRope, "rope_factors_long", m.rope_factors);
  w.vector(Role::kRope, "rope_factors_short", m.rope_factors);
}

void write_head(const ModelSpec& m, TensorTable& table, Writer& w) {
  w.enter(-1, table.head);
  write_rope_factors(m, w);
  if (m.layer_embedding > 0) {
    w.matrix(Role::kUnquantized, "per_layer_model_proj", m.hidden, m.layers * m.layer_embedding);
    w.norm("per_layer_proj_norm", m.layer_embedding);
  }
  if (m.norms_per_layer > 0) w.norm("output_norm", m.hidden);
  table.head_is_embedding = m.tied_embeddings;
  if (!m.tied_embeddings) return w.matrix(Role::kOutput, "output", m.hidden, m.vocabulary);
  if (!table.tensors.empty()) table.head.add(table.tensors.front());
}

}  // namespace

Result<TensorTable> make_tensor_table(const ModelSpec& model, const QuantMix& mix) {
  TensorTable table;
  table.layers.resize(std::size_t(std::max(model.layers, 0)));
  Writer writer(model, mix, table);
  write_embedding(model, table, writer);
  for (int i = 0; i < model.layers && !writer.error(); ++i)
    write_block(model, i, table.layers[std::size_t(i)], writer);
  for (int i = 0; i < model.nextn_layers && !writer.error(); ++i)
    write_nextn_block(model, model.layers + i, table.speculation, writer);
  write_head(model, table, writer);
  if (writer.error()) return *writer.error();
  return table;
}

void scale_to(TensorTable& table, Bytes size) {
  const double usual = double(table.bytes());
  if (usual <= 0 || size.value <= 0) return;
  const double share = size.value / usual;
  const auto scale = [share](std::uint64_t& bytes) {
    bytes = std::uint64_t(std::llround(double(bytes) * share));
  };
  for (Tensor& t : table.tensors) scale(t.bytes);
  const auto scale_group = [&](WeightGroup& group) {
    std::ranges::for_each(group.bytes_by_format, scale);
  };
  for (LayerWeights& l : table.layers)
    for (WeightGroup* group : {&l.attention, &l.ffn, &l.experts}) scale_group(*group);
  for (WeightGroup* group : {&table.embedding, &table.head, &table.speculation})
    scale_group(*group);
}

}  // namespace rigcast
