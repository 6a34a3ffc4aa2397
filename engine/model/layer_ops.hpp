#pragma once
// A layer as the list of operations that computes it. The reference executes one operation at a
// time; backends compute several of them at once (fused_blocks.hpp).

#include <span>
#include <string>
#include <vector>

#include "engine/model/layer_weights.hpp"

namespace rigcast::engine {

/// Vectors of one token that operations read and write.
enum class Activation {
  kHidden,       // [hidden]: the residual stream
  kNormed,       // [hidden]: the input of attention, FFN or experts
  kLatentQuery,  // [q_lora_rank]: of which queries are made in latent attention
  kQuery,        // [heads][head_dim]
  kKey,          // [kv_heads][head_dim]
  kValue,        // [kv_heads][head_dim]
  kAttended,     // [heads][head_dim]: values, weighted by attention
  kBranch,       // [hidden]: the output of attention, FFN or experts
  kMixed,        // what a recurrent mixer convolves: of a delta net queries, keys and values
  kGates,        // of what attention or a mixer gives
  kAlpha,        // [mixer's heads]: how fast a state decays
  kBeta,         // [mixer's heads]: how much of a state a token replaces
  kRouted,       // [hidden]: the input of a router that has a norm of its own
  kDense,        // [hidden]: the output of an FFN beside experts
};
inline constexpr int kActivationCount = int(Activation::kDense) + 1;

/// The kinds of operations: their output as a function of `in` and the weights w0, w1, ...
enum class OpKind {
  kRmsNorm,      // out = in / rms(in) * w0
  kHeadRmsNorm,  // rms_norm of each head; w0 has a head's width; no weight: it is 1
  // out = (in - mean of in) / standard deviation * w0 + w1; without w1: 0
  kLayerNorm,
  kHeadLayerNorm,  // layer_norm of each head; w0 has all heads'
  kLinear,         // out = w0 in
  kAddBias,        // out = in + w0
  kRope,           // out = each head of `in`, rotated by the token's position
  // Of latent attention (LatentShape):
  kLatentNorm,    // out = in, its first elements, as many as w0 has, as rms_norm(those) * w0
  kRopeTail,      // out = each head of `in`, its last `turned` elements rotated by the position
  kAbsorbKeys,    // out = each head of `in`, its first elements times that head's rows of w0
  kExpandValues,  // out = each head of `in`, its first `rank` elements times its rows of w0
  // out = in * (1 + temperature * ln(1 + floor(position / temperature_tokens)))
  kScaleByPosition,
  // out = attention of query `in` over the cache and the new kKey, kValue; w0: sinks, one more
  // logit of each head, which the softmax counts and no value has
  kAttention,
  kGatedFfn,        // out = w2 (silu(w0 in) * (w1 in)): gate, up and down
  kGeluFfn,         // out = w2 (gelu(w0 in) * (w1 in)), gelu by tanh
  kGeluMlp,         // out = w1 gelu(w0 in + w2) + w3: up and down; without w2, w3: 0
  kXieluMlp,        // out = w1 xielu(w0 in), by the layer's Xielu
  kSquaredReluMlp,  // out = w1 max(w0 in, 0)^2
  // out = w1 (gelu(w0 in) * the token's input of this layer)
  kLayerInput,
  // out = the gated FFNs that the router w0 chooses; w1, w2, w3: their stacks; w4: the router's
  // bias; w5, w6, w7: those of the stacks; kSelectionBias, if any: added to probabilities, for the
  // choice alone
  kExperts,
  kClampedExperts,  // the same with clamped SwiGLU: (clamp(up) + 1) * g * sigmoid(1.702 g)
  // The same with GELU, of a router that reads kRouted; kExpertScale: of what experts give
  kGeluExperts,
  // Experts without a gate, whose ups are squared where they are positive: w1, w2: stacks of up and
  // down
  kSquaredReluExperts,
  kSquaredReluShared,  // out = out + w1 max(w0 in, 0)^2
  // out = out + gated FFN of `in` (gate, up, down), which w3, if any, multiplies by sigmoid(w3 .
  // in)
  kSharedExpert,
  kAdd,          // out = out + in
  kAddResidual,  // out = out + residual_scale * in
  kScale,        // out = in * w0, one number
  kTakeQuery,    // out = the first half of each head of `in`, which is twice as wide
  kTakeGate,     // out = the second half
  kSigmoidGate,  // out = out * sigmoid(in)
  kConvolve,     // out = silu(in, convolved with that of the tokens before); w0: taps
  // `in` is b, c and x: out = c * (b * x, convolved with that of the tokens before); w0: taps
  kShortConvolution,
  // Of delta nets whose neighbouring heads share keys: `in` has for each such group of heads a
  // query, a key, values and gates; out = all queries, all keys, all values; out = all gates
  kTakeGroupVectors,
  kTakeGroupGates,
  // `in` has for each group the betas of its heads, then their alphas; out = all of either
  kTakeGroupBetas,
  kTakeGroupAlphas,
  // out = the states of heads, of which tokens replace a part (gated delta rule), as queries see
  // them: `in` is queries, keys and values; states decay by exp(w0 * softplus(kAlpha + w1)), and
  // sigmoid(kBeta) is the part. Head h has the keys of group h % groups
  kDeltaNet,
  kGroupedDeltaNet,  // the same where neighbouring heads share keys
  kGatedRmsNorm,     // out = rms_norm of each mixer's head of out, by w0, * silu(in)
  // out = silu(z) * (what the states of heads give): `in` is z, then x, keys and queries of groups,
  // then a time step of each head. The second part is convolved: w0: taps, w1: bias. States decay
  // by exp(w2 * t) and take x * t by the key, t = softplus(time step + w3); w4 * x is added
  kMamba,
  kGroupRmsNorm,  // out = rms_norm of each mixer's group of heads, by w0
};

struct LayerOp {
  OpKind kind{};
  Activation in{}, out{};
  std::vector<LayerWeight> weights{};

  bool operator==(const LayerOp&) const = default;
};

/// True if one of the operations uses the weight, or is of the kind.
bool uses(std::span<const LayerOp> ops, LayerWeight weight);
bool uses(std::span<const LayerOp> ops, OpKind kind);

/// "normed = rms_norm(hidden, attn_norm.weight)"
std::string text(const LayerOp& op);

}  // namespace rigcast::engine
