#include "engine/architectures/decoder_layer.hpp"

#include <utility>

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

Ops add_branch(const Architecture& a, LayerWeight norm) {
  Ops ops;
  if (a.norms != NormPlan::kBefore) ops.push_back({kRmsNorm, kBranch, kBranch, {norm}});
  ops.push_back({kAddResidual, kBranch, kHidden});
  return ops;
}

Ops head_norms(const ModelSpec& m) {
  const OpKind norm = m.qk_norm_wide ? kRmsNorm : kHeadRmsNorm;
  if (!m.qk_norm) return {};
  return {{norm, kQuery, kQuery, {kQNorm}}, {norm, kKey, kKey, {kKNorm}}};
}

Ops projections(const Architecture& a, const ModelSpec& m) {
  const Activation in = input_of(a);
  Ops ops = {{kLinear, in, kQuery, {kQ}}, {kLinear, in, kKey, {kK}}, {kLinear, in, kValue, {kV}}};
  if (m.qkv_bias)
    append(ops, {{kAddBias, kQuery, kQuery, {kQBias}},
                 {kAddBias, kKey, kKey, {kKBias}},
                 {kAddBias, kValue, kValue, {kVBias}}});
  if (m.attention_gate) append(ops, {{kTakeGate, kQuery, kGates}, {kTakeQuery, kQuery, kQuery}});
  return ops;
}

Ops attention(const Architecture& a, const ModelSpec& m, int layer) {
  Ops ops = norm_before(a, kAttentionNorm);
  append(ops, projections(a, m));
  if (!a.norms_rotated) append(ops, head_norms(m));
  if (rotates(a, m, layer)) append(ops, {{kRope, kQuery, kQuery}, {kRope, kKey, kKey}});
  if (a.norms_rotated) append(ops, head_norms(m));
  if (a.scales_queries) append(ops, {{kScaleByPosition, kQuery, kQuery}});
  LayerOp attend = {kAttention, kQuery, kAttended};
  if (m.attention_sinks) attend.weights = {kSinks};
  append(ops, {std::move(attend)});
  if (m.attention_gate) append(ops, {{kSigmoidGate, kGates, kAttended}});
  append(ops, {{kLinear, kAttended, kBranch, {kOutput}}});
  if (m.output_bias) append(ops, {{kAddBias, kBranch, kBranch, {kOutputBias}}});
  append(ops, add_branch(a, kAttentionPostNorm));
  return ops;
}

// A recurrent layer's part of the layer, in place of attention.
Ops mixer(const Architecture& a) {
  Ops ops = norm_before(a, kAttentionNorm);
  ops.push_back({kLinear, input_of(a), kMixed, {kMixerIn}});
  if (a.mixer == Mixer::kShortConvolution)
    ops.push_back({kShortConvolution, kMixed, kAttended, {kMixerTaps}});
  if (a.mixer == Mixer::kMamba)
    append(ops, {{kMamba,
                  kMixed,
                  kAttended,
                  {kMixerTaps, kMixerTapsBias, kMixerDecay, kMixerTimeBias, kMixerSkip}},
                 {kGroupRmsNorm, kAttended, kAttended, {kMixerNorm}}});
  if (a.mixer == Mixer::kDeltaNet)
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

LayerOp mixture(const Architecture& a, const ModelSpec& m) {
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

Ops shared_expert(const Architecture& a, const ModelSpec& m) {
  if (m.moe->shared_ffn == 0) return {};
  LayerOp op = {kSharedExpert, input_of(a), kBranch, {kSharedGate, kSharedUp, kSharedDown}};
  if (m.moe->shared_gate) op.weights.push_back(kSharedRouter);
  return {std::move(op)};
}

Ops feed_forward(const Architecture& a, const ModelSpec& m, bool experts) {
  const Activation in = input_of(a);
  const OpKind gated = a.activation == FfnActivation::kGelu ? kGeluFfn : kGatedFfn;
  const LayerOp ffn = {gated, in, kBranch, {kGate, kUp, kDown}};
  Ops ops = norm_before(a, kFfnNorm);
  ops.push_back(experts ? mixture(a, m) : ffn);
  if (experts) append(ops, shared_expert(a, m));
  append(ops, add_branch(a, kFfnPostNorm));
  return ops;
}

int norms_of(NormPlan plan) { return plan == NormPlan::kAround ? 4 : 2; }

}  // namespace

bool rotates(const Architecture& architecture, const ModelSpec& spec, int layer) {
  return !architecture.rotates || architecture.rotates(spec, layer);
}

std::vector<LayerOp> decoder_layer(const Architecture& architecture, const ModelSpec& m,
                                   int layer) {
  Ops ops = m.has_recurrent_mixer(layer) ? mixer(architecture) : attention(architecture, m, layer);
  append(ops, feed_forward(architecture, m, m.is_moe_layer(layer)));
  return ops;
}

std::string_view unexecuted_trait(const Architecture& architecture, const ModelSpec& m) {
  const bool clamps = architecture.activation == FfnActivation::kClampedSwiglu;
  const std::pair<bool, std::string_view> traits[] = {
      {m.window && (m.window->full_head_dim > 0 || m.window->full_kv_heads > 0 ||
                    m.window->full_key_is_value),
       "layers without a window that differ from the others"},
      {m.mla.has_value(), "latent attention"},
      {m.indexer.has_value(), "an indexer that chooses tokens"},
      {m.recurrent && (architecture.mixer == Mixer::kNone || m.recurrent->parallel),
       "recurrent layers"},
      {!m.pattern.empty(), "layers of one block alone"},
      {!m.gated_ffn, "an FFN without a gate"},
      {m.ffn_bias, "biases in the FFN"},
      {m.norm_bias, "norms with a bias"},
      {m.norms_per_layer != norms_of(architecture.norms), architecture.norms == NormPlan::kAround
                                                              ? "other than four norms in a layer"
                                                              : "other than two norms in a layer"},
      {m.attention_gate && m.qkv_bias, "a gate on the attention, and biases"},
      {m.shared_kv_layers > 0, "layers that share a KV cache"},
      {m.layer_embedding > 0, "embeddings for each layer"},
      {m.layer_scale, "a scale for each layer"},
      {m.moe && m.moe->expert_bias && !m.moe->router_bias,
       "biased experts without a biased router"},
      {m.moe && architecture.activation == FfnActivation::kGelu, "experts with GELU"},
      {clamps && m.moe && m.moe->shared_ffn > 0, "shared experts with clamped SwiGLU"},
      {clamps && (!m.moe || m.moe->dense_layers > 0 || m.moe->every > 1),
       "a dense FFN with clamped SwiGLU"},
  };
  for (const auto& [has, words] : traits)
    if (has) return words;
  return {};
}

}  // namespace rigcast::engine
