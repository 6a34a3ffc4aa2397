#include "engine/architectures/decoder_layer.hpp"

#include <utility>
#include <vector>

namespace rigcast::engine {

namespace {

using enum OpKind;
using enum Activation;
using enum LayerWeight;

using Ops = std::vector<LayerOp>;

void append(Ops& to, Ops ops) { to.insert(to.end(), ops.begin(), ops.end()); }

// What attention and FFN read: the residual stream, or its norm.
Activation input_of(const Architecture& a) {
  return a.norms == NormPlan::kBehind ? kHidden : kNormed;
}

Ops norm_before(const Architecture& a, LayerWeight weight) {
  if (a.norms == NormPlan::kBehind) return {};
  return {{kRmsNorm, kHidden, kNormed, {weight}}};
}

// The same, with a bias, or of the kind that subtracts the mean.
Ops norm_before(const Architecture& a, const ModelSpec& m, LayerWeight weight, LayerWeight bias) {
  if (!a.layer_norm) {
    Ops ops = norm_before(a, weight);
    if (m.norm_bias) ops.push_back({kAddBias, kNormed, kNormed, {bias}});
    return ops;
  }
  LayerOp norm = {kLayerNorm, kHidden, kNormed, {weight}};
  if (m.norm_bias) norm.weights.push_back(bias);
  return {std::move(norm)};
}

Ops attention_norm(const Architecture& a, const ModelSpec& m) {
  return norm_before(a, m, kAttentionNorm, kAttentionNormBias);
}

Ops add_branch(const Architecture& a, LayerWeight norm) {
  Ops ops;
  if (a.norms == NormPlan::kBehind || a.norms == NormPlan::kAround)
    ops.push_back({kRmsNorm, kBranch, kBranch, {norm}});
  ops.push_back({kAddResidual, kBranch, kHidden});
  return ops;
}

Ops head_norms(const Architecture& a, const ModelSpec& m) {
  const OpKind norm = a.layer_norm ? kHeadLayerNorm : m.qk_norm_wide ? kRmsNorm : kHeadRmsNorm;
  if (!m.qk_norm) return {};
  return {{norm, kQuery, kQuery, {kQNorm}}, {norm, kKey, kKey, {kKNorm}}};
}

Ops projections(const Architecture& a, const ModelSpec& m, int layer) {
  const Activation in = input_of(a);
  const bool keys_are_values = m.window && m.window->full_key_is_value && m.sees_all_tokens(layer);
  Ops ops = {{kLinear, in, kQuery, {kQ}},
             {kLinear, in, kKey, {kK}},
             {kLinear, in, kValue, {keys_are_values ? kK : kV}}};
  if (m.qkv_bias)
    append(ops, {{kAddBias, kQuery, kQuery, {kQBias}},
                 {kAddBias, kKey, kKey, {kKBias}},
                 {kAddBias, kValue, kValue, {kVBias}}});
  if (m.attention_gate) append(ops, {{kTakeGate, kQuery, kGates}, {kTakeQuery, kQuery, kQuery}});
  return ops;
}

Ops attention(const Architecture& a, const ModelSpec& m, int layer) {
  Ops ops = attention_norm(a, m);
  append(ops, projections(a, m, layer));
  if (!a.norms_rotated) append(ops, head_norms(a, m));
  if (a.layers_differ) append(ops, {{kHeadRmsNorm, kValue, kValue}});
  if (rotates(a, m, layer)) append(ops, {{kRope, kQuery, kQuery}, {kRope, kKey, kKey}});
  if (a.norms_rotated) append(ops, head_norms(a, m));
  if (norms_turned(a, m, layer))
    append(ops, {{kHeadRmsNorm, kQuery, kQuery}, {kHeadRmsNorm, kKey, kKey}});
  if (a.scales_queries || (a.scales_unturned && !rotates(a, m, layer)))
    append(ops, {{kScaleByPosition, kQuery, kQuery}});
  LayerOp attend = {kAttention, kQuery, kAttended};
  if (m.attention_sinks) attend.weights = {kSinks};
  append(ops, {std::move(attend)});
  if (m.attention_gate) append(ops, {{kSigmoidGate, kGates, kAttended}});
  append(ops, {{kLinear, kAttended, kBranch, {kOutput}}});
  if (m.output_bias) append(ops, {{kAddBias, kBranch, kBranch, {kOutputBias}}});
  append(ops, add_branch(a, kAttentionPostNorm));
  // The cache of an earlier layer has the keys and values.
  if (!m.has_kv(layer))
    std::erase_if(ops, [](const LayerOp& op) { return op.out == kKey || op.out == kValue; });
  return ops;
}

// A recurrent layer's part of the layer, in place of attention, or behind it, of the same norm.
Ops mixer(const Architecture& a) {
  Ops ops = a.mixes_beside ? Ops() : norm_before(a, kAttentionNorm);
  ops.push_back({kLinear, input_of(a), kMixed, {kMixerIn}});
  if (a.mixer == Mixer::kShortConvolution)
    ops.push_back({kShortConvolution, kMixed, kAttended, {kMixerTaps}});
  if (a.mixer == Mixer::kMamba)
    append(ops, {{kMamba,
                  kMixed,
                  kAttended,
                  {kMixerTaps, kMixerTapsBias, kMixerDecay, kMixerTimeBias, kMixerSkip}}});
  if (a.mixer == Mixer::kMamba && a.normed_mixer)
    ops.push_back({kGroupRmsNorm, kAttended, kAttended, {kMixerNorm}});
  if (a.mixer == Mixer::kDeltaNet && a.grouped_heads)
    append(ops, {{kLinear, input_of(a), kGates, {kMixerGate}},
                 {kLinear, input_of(a), kBeta, {kMixerBeta}},
                 {kTakeGroupAlphas, kBeta, kAlpha},
                 {kTakeGroupBetas, kBeta, kBeta},
                 {kConvolve, kMixed, kMixed, {kMixerTaps}},
                 {kGroupedDeltaNet, kMixed, kAttended, {kMixerDecay, kMixerTimeBias}},
                 {kGatedRmsNorm, kGates, kAttended, {kMixerNorm}}});
  if (a.mixer == Mixer::kDeltaNet && !a.grouped_heads)
    append(ops, {{kLinear, input_of(a), kGates, {kMixerGate}},
                 {kLinear, input_of(a), kAlpha, {kMixerAlpha}},
                 {kLinear, input_of(a), kBeta, {kMixerBeta}},
                 {kConvolve, kMixed, kMixed, {kMixerTaps}},
                 {kDeltaNet, kMixed, kAttended, {kMixerDecay, kMixerTimeBias}},
                 {kGatedRmsNorm, kGates, kAttended, {kMixerNorm}}});
  ops.push_back({kLinear, kAttended, kBranch, {kMixerOut}});
  append(ops, add_branch(a, kAttentionPostNorm));
  return ops;
}

// Keys and values of a head are never made: queries are brought to the rows of the cache, and what
// attention gives is brought to values.
Ops latent_attention(const Architecture& a, const ModelSpec& m) {
  Ops ops = {{kRmsNorm, kHidden, kNormed, {kAttentionNorm}}};
  if (m.mla->q_lora_rank > 0)
    append(ops, {{kLinear, kNormed, kLatentQuery, {kQA}},
                 {kRmsNorm, kLatentQuery, kLatentQuery, {kQANorm}},
                 {kLinear, kLatentQuery, kQuery, {kQB}}});
  else
    append(ops, {{kLinear, kNormed, kQuery, {kQ}}});
  append(ops, {{kLinear, kNormed, kKey, {kKvA}},
               {kLatentNorm, kKey, kKey, {kKvANorm}},
               {kRopeTail, kQuery, kQuery},
               {kRopeTail, kKey, kKey},
               {kAbsorbKeys, kQuery, kQuery, {kKB}}});
  if (a.scales_queries) append(ops, {{kScaleByPosition, kQuery, kQuery}});
  append(ops, {{kAttention, kQuery, kAttended},
               {kExpandValues, kAttended, kAttended, {kVB}},
               {kLinear, kAttended, kBranch, {kOutput}},
               {kAddResidual, kBranch, kHidden}});
  return ops;
}

LayerOp mixture(const Architecture& a, const ModelSpec& m) {
  if (!m.gated_ffn) {
    LayerOp op = {kSquaredReluExperts, input_of(a), kBranch, {kRouter, kExpertUp, kExpertDown}};
    if (m.moe->router_bias) op.weights.push_back(kSelectionBias);
    return op;
  }
  const bool clamped = a.activation == FfnActivation::kClampedSwiglu;
  LayerOp op = {clamped ? kClampedExperts : kExperts,
                input_of(a),
                kBranch,
                {kRouter, kExpertGate, kExpertUp, kExpertDown}};
  if (m.moe->expert_bias)
    op.weights.insert(op.weights.end(),
                      {kRouterBias, kExpertGateBias, kExpertUpBias, kExpertDownBias});
  else if (m.moe->router_bias)
    op.weights.push_back(kSelectionBias);
  return op;
}

LayerOp dense_ffn(const Architecture& a, const ModelSpec& m) {
  const Activation in = input_of(a);
  if (m.gated_ffn) {
    const OpKind gated = a.activation == FfnActivation::kGelu ? kGeluFfn : kGatedFfn;
    return {gated, in, kBranch, {kGate, kUp, kDown}};
  }
  if (a.activation == FfnActivation::kXielu) return {kXieluMlp, in, kBranch, {kUp, kDown}};
  if (a.activation == FfnActivation::kSquaredRelu)
    return {kSquaredReluMlp, in, kBranch, {kUp, kDown}};
  LayerOp mlp = {kGeluMlp, in, kBranch, {kUp, kDown}};
  if (m.ffn_bias) mlp.weights.insert(mlp.weights.end(), {kUpBias, kDownBias});
  return mlp;
}

Ops shared_expert(const Architecture& a, const ModelSpec& m) {
  if (m.moe->shared_ffn == 0) return {};
  if (!m.gated_ffn) return {{kSquaredReluShared, input_of(a), kBranch, {kSharedUp, kSharedDown}}};
  LayerOp op = {kSharedExpert, input_of(a), kBranch, {kSharedGate, kSharedUp, kSharedDown}};
  if (m.moe->shared_gate) op.weights.push_back(kSharedRouter);
  return {std::move(op)};
}

// Experts and a dense FFN, which has the weights of a shared expert, side by side: each of the
// three that read the residual stream, one being the router, has a norm of its own.
Ops experts_beside_ffn() {
  return {{kRmsNorm, kHidden, kNormed, {kFfnNorm}},
          {kGeluFfn, kNormed, kDense, {kSharedGate, kSharedUp, kSharedDown}},
          {kRmsNorm, kDense, kDense, {kSharedPostNorm}},
          {kRmsNorm, kHidden, kRouted, {kRouterNorm}},
          {kRmsNorm, kHidden, kNormed, {kExpertNorm}},
          {kGeluExperts,
           kNormed,
           kBranch,
           {kRouter, kExpertGate, kExpertUp, kExpertDown, kExpertScale}},
          {kRmsNorm, kBranch, kBranch, {kExpertPostNorm}},
          {kAdd, kDense, kBranch}};
}

Ops feed_forward(const Architecture& a, const ModelSpec& m, bool experts) {
  Ops ops;
  if (experts && a.experts_beside) {
    ops = experts_beside_ffn();
    append(ops, add_branch(a, kFfnPostNorm));
    return ops;
  }
  if (a.norms != NormPlan::kShared) ops = norm_before(a, m, kFfnNorm, kFfnNormBias);
  ops.push_back(experts ? mixture(a, m) : dense_ffn(a, m));
  if (experts) append(ops, shared_expert(a, m));
  append(ops, add_branch(a, kFfnPostNorm));
  return ops;
}

// What follows the FFN: the token's input of the layer, and the layer's scale.
Ops layer_end(const ModelSpec& m) {
  Ops ops;
  if (m.layer_embedding > 0)
    append(ops, {{kLayerInput, kHidden, kBranch, {kInputGate, kInputProjection}},
                 {kRmsNorm, kBranch, kBranch, {kInputNorm}},
                 {kAddResidual, kBranch, kHidden}});
  if (m.layer_scale) append(ops, {{kScale, kHidden, kHidden, {kLayerScale}}});
  return ops;
}

bool has_experts_beside(const Architecture& a, const ModelSpec& m) {
  return m.moe && a.experts_beside;
}

int norms_of(const Architecture& a, const ModelSpec& m) {
  if (has_experts_beside(a, m)) return 8;
  if (a.single_blocks || a.norms == NormPlan::kShared) return 1;
  return a.norms == NormPlan::kAround ? 4 : 2;
}

std::string_view other_norms(const Architecture& a, const ModelSpec& m) {
  switch (norms_of(a, m)) {
    case 1: return "other than one norm in a layer";
    case 4: return "other than four norms in a layer";
    case 8: return "other than eight norms in a layer";
    default: return "other than two norms in a layer";
  }
}

// An FFN without a gate is executed with one of these.
bool has_mlp(const Architecture& a) {
  return a.activation == FfnActivation::kXielu || a.activation == FfnActivation::kSquaredRelu ||
         (a.activation == FfnActivation::kGelu && a.norms == NormPlan::kShared);
}

}  // namespace

bool rotates(const Architecture& architecture, const ModelSpec& spec, int layer) {
  return !architecture.rotates || architecture.rotates(spec, layer);
}

bool norms_turned(const Architecture& architecture, const ModelSpec& spec, int layer) {
  return architecture.norms_turned && architecture.norms_turned(spec) &&
         rotates(architecture, spec, layer);
}

std::vector<LayerOp> decoder_layer(const Architecture& architecture, const ModelSpec& m,
                                   int layer) {
  const bool mixes = m.has_recurrent_mixer(layer);
  Ops ops;
  if (m.has_attention(layer))
    ops = m.mla ? latent_attention(architecture, m) : attention(architecture, m, layer);
  if (mixes) append(ops, mixer(architecture));
  if (m.has_ffn(layer)) append(ops, feed_forward(architecture, m, m.is_moe_layer(layer)));
  append(ops, layer_end(m));
  return ops;
}

std::string_view unexecuted_trait(const Architecture& architecture, const ModelSpec& m) {
  const bool clamps = architecture.activation == FfnActivation::kClampedSwiglu;
  const std::pair<bool, std::string_view> traits[] = {
      {!architecture.layers_differ && m.window &&
           (m.window->full_head_dim > 0 || m.window->full_kv_heads > 0 ||
            m.window->full_key_is_value),
       "layers without a window that differ from the others"},
      {architecture.scales_unturned && !m.window, "no layer with a window"},
      {m.mla.has_value() && !architecture.latent_attention, "latent attention"},
      {!m.mla && architecture.latent_attention, "attention that is not latent"},
      {m.mla && (m.window || m.qkv_bias || m.output_bias || m.qk_norm || m.fused_qkv ||
                 m.attention_sinks),
       "latent attention with biases, sinks, a window or norms of heads"},
      {m.indexer.has_value(), "an indexer that chooses tokens"},
      {m.recurrent && (architecture.mixer == Mixer::kNone ||
                       m.recurrent->parallel != architecture.mixes_beside),
       "recurrent layers"},
      {architecture.mixes_beside && !m.recurrent, "no recurrent mixers"},
      {m.pattern.empty() == architecture.single_blocks,
       m.pattern.empty() ? "layers of several blocks" : "layers of one block alone"},
      {!m.gated_ffn && !has_mlp(architecture), "an FFN without a gate"},
      {m.gated_ffn && has_mlp(architecture), "an FFN with a gate"},
      {m.ffn_bias && m.gated_ffn, "biases in the FFN"},
      {m.ffn_bias && architecture.activation == FfnActivation::kXielu, "biases in the FFN"},
      {m.norm_bias && !architecture.layer_norm && !architecture.biased_norms, "norms with a bias"},
      {architecture.layer_norm && m.qk_norm && !m.qk_norm_wide, "one norm for all heads"},
      {m.norms_per_layer != norms_of(architecture, m), other_norms(architecture, m)},
      {m.attention_gate && m.qkv_bias, "a gate on the attention, and biases"},
      {!architecture.layers_differ && m.shared_kv_layers > 0, "layers that share a KV cache"},
      {!architecture.layers_differ && m.layer_embedding > 0, "embeddings for each layer"},
      {!architecture.layers_differ && m.layer_scale, "a scale for each layer"},
      {m.moe && architecture.norms == NormPlan::kShared, "experts beside attention"},
      {m.moe && !m.gated_ffn && architecture.activation != FfnActivation::kSquaredRelu,
       "experts without a gate"},
      {m.moe && m.moe->expert_bias && !m.gated_ffn, "biased experts without a gate"},
      {m.moe && m.moe->shared_gate && !m.gated_ffn, "a weighed shared expert without a gate"},
      {m.moe && m.moe->expert_bias && !m.moe->router_bias,
       "biased experts without a biased router"},
      {m.moe && architecture.activation == FfnActivation::kGelu && !architecture.experts_beside,
       "experts with GELU"},
      {has_experts_beside(architecture, m) &&
           (m.moe->shared_ffn == 0 || m.moe->shared_gate || !m.moe->router_bias ||
            m.moe->expert_bias || m.moe->dense_layers > 0 || m.moe->every > 1 ||
            m.layer_embedding > 0),
       "experts other than those beside a dense FFN in every layer"},
      {clamps && m.moe && m.moe->shared_ffn > 0, "shared experts with clamped SwiGLU"},
      {clamps && (!m.moe || m.moe->dense_layers > 0 || m.moe->every > 1),
       "a dense FFN with clamped SwiGLU"},
  };
  for (const auto& [has, words] : traits)
    if (has) return words;
  return {};
}

}  // namespace rigcast::engine
