#include "engine/architectures/pre_norm_decoder.hpp"

#include <utility>

namespace rigcast::engine {

namespace {

using enum OpKind;
using enum Activation;
using enum LayerWeight;

using Ops = std::vector<LayerOp>;

void append(Ops& to, Ops ops) { to.insert(to.end(), ops.begin(), ops.end()); }

Ops attention(const ModelSpec& m) {
  Ops ops = {{kRmsNorm, kHidden, kNormed, {kAttentionNorm}},
             {kLinear, kNormed, kQuery, {kQ}},
             {kLinear, kNormed, kKey, {kK}},
             {kLinear, kNormed, kValue, {kV}}};
  if (m.qkv_bias)
    append(ops, {{kAddBias, kQuery, kQuery, {kQBias}},
                 {kAddBias, kKey, kKey, {kKBias}},
                 {kAddBias, kValue, kValue, {kVBias}}});
  if (m.qk_norm)
    append(ops, {{kHeadRmsNorm, kQuery, kQuery, {kQNorm}}, {kHeadRmsNorm, kKey, kKey, {kKNorm}}});
  append(ops, {{kRope, kQuery, kQuery},
               {kRope, kKey, kKey},
               {kAttention, kQuery, kAttended},
               {kLinear, kAttended, kBranch, {kOutput}}});
  if (m.output_bias) append(ops, {{kAddBias, kBranch, kBranch, {kOutputBias}}});
  append(ops, {{kAddResidual, kBranch, kHidden}});
  return ops;
}

Ops feed_forward(bool experts) {
  const LayerOp ffn = {kGatedFfn, kNormed, kBranch, {kGate, kUp, kDown}};
  const LayerOp mixture = {
      kExperts, kNormed, kBranch, {kRouter, kExpertGate, kExpertUp, kExpertDown}};
  return {{kRmsNorm, kHidden, kNormed, {kFfnNorm}},
          experts ? mixture : ffn,
          {kAddResidual, kBranch, kHidden}};
}

// Keys that read_spec and read_hyperparameters read. Values that are not executed are refused
// there, or by check_executable.
constexpr std::string_view kRead[] = {
    "attention.head_count",
    "attention.head_count_kv",
    "attention.key_length",
    "attention.key_length_swa",
    "attention.kv_lora_rank",
    "attention.layer_norm_rms_epsilon",
    "attention.shared_kv_layers",
    "attention.sliding_window",
    "attention.sliding_window_pattern",
    "attention.value_length",
    "block_count",
    "context_length",
    "embedding_length",
    "embedding_length_per_layer_input",
    "expert_count",
    "expert_feed_forward_length",
    "expert_gating_func",
    "expert_used_count",
    "expert_weights_norm",
    "expert_weights_scale",
    "feed_forward_length",
    "interleave_moe_layer_step",
    "leading_dense_block_count",
    "nextn_predict_layers",
    "rope.dimension_count",
    "rope.freq_base",
    "rope.scale_linear",
    "rope.scaling.factor",
    "rope.scaling.type",
};

// Keys that change no logit of the executed architectures.
constexpr std::string_view kHarmless[] = {
    "classifier.output_labels",           // names of classes
    "expert_shared_count",                // shared experts are recognized by their tensors
    "expert_shared_feed_forward_length",  // likewise
    "pooling_type",                       // pooling of embeddings, after the last layer
    "rope.scaling.finetuned",             // says how the model was trained
    "rope.scaling.original_context_length",
    "rope.scaling.yarn_beta_fast",  // only for YaRN, which is refused by its type
    "rope.scaling.yarn_beta_slow",
    "rope.scaling.yarn_log_multiplier",
    "tensor_data_layout",  // origin of the weights; q and k are permuted in any case
    "vocab_size",          // known from the embedding
};

// Keys with the only value that is supported.
constexpr NeutralKey kNeutral[] = {
    {"attention.causal", 1, "let tokens see those behind them"},
    {"attention.clamp_kqv", 0, "bound queries, keys and values"},
    {"attention.max_alibi_bias", 0, "add a bias to scores of attention"},
    {"attn_logit_softcapping", 0, "bound scores of attention"},
    {"attention.temperature_length", 0, "scale scores of attention by position"},
    {"attention.temperature_scale", 0, "scale scores of attention by position"},
    {"embedding_scale", 1, "scale the embedding"},
    {"expert_group_count", 0, "choose experts by groups", 1},
    {"expert_group_used_count", 0, "choose experts by groups", 1},
    {"final_logit_softcapping", 0, "bound the logits"},
    {"logit_scale", 1, "scale the logits"},
    {"residual_scale", 1, "scale what layers add"},
    {"rope.scaling.alpha", 1, "turn heads with another base"},
    {"rope.scaling.attn_factor", 1, "scale queries and keys"},
    {"rope.scaling.yarn_attn_factor", 1, "scale queries and keys"},
    {"rope.scaling.yarn_ext_factor", 0, "mix YaRN's frequencies in"},
    {"use_parallel_residual", 0, "compute attention and FFN side by side"},
};

}  // namespace

std::vector<LayerOp> pre_norm_layer(const ModelSpec& m, int layer) {
  Ops ops = attention(m);
  append(ops, feed_forward(m.is_moe_layer(layer)));
  return ops;
}

std::string_view not_pre_norm_decoder(const ModelSpec& m) {
  const std::pair<bool, std::string_view> traits[] = {
      {m.window && (m.window->full_head_dim > 0 || m.window->full_kv_heads > 0 ||
                    m.window->full_key_is_value),
       "layers without a window that differ from the others"},
      {m.mla.has_value(), "latent attention"},
      {m.recurrent.has_value(), "recurrent layers"},
      {!m.pattern.empty(), "layers of one block alone"},
      {m.fused_qkv, "q, k and v in one matrix"},
      {m.fused_gate_up || !m.gated_ffn, "an FFN without a gate of its own"},
      {m.ffn_bias, "biases in the FFN"},
      {m.norm_bias, "norms with a bias"},
      {m.norms_per_layer != 2, "other than two norms in a layer"},
      {m.rope_factors > 0, "two vectors of rope factors"},
      {m.qk_norm_wide, "a norm over all heads"},
      {m.attention_gate, "a gate on the attention"},
      {m.attention_sinks, "attention sinks"},
      {m.shared_kv_layers > 0, "layers that share a KV cache"},
      {m.layer_embedding > 0, "embeddings for each layer"},
      {m.layer_scale, "a scale for each layer"},
      {m.nextn_layers > 0, "layers that draft tokens"},
      {m.moe && m.moe->shared_ffn > 0, "shared experts"},
      {m.moe && (m.moe->router_bias || m.moe->expert_bias), "biased experts"},
  };
  for (const auto& [has, words] : traits)
    if (has) return words;
  return {};
}

constinit const MetadataKeys kDecoderKeys = {kRead, kHarmless, kNeutral};

}  // namespace rigcast::engine
