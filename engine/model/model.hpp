#pragma once
// A model ready for computation: spec, hyperparameters and weights.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <vector>

#include "core/base/units.hpp"
#include "core/model/model_spec.hpp"
#include "engine/model/hyperparameters.hpp"
#include "engine/model/layer_ops.hpp"
#include "engine/model/matrix.hpp"
#include "engine/model/recurrent_mixers.hpp"

namespace rigcast::engine {

/// How a layer's heads attend. Layers of one model may differ.
struct AttentionShape {
  int heads = 0;
  int kv_heads = 0;  // neighbouring heads share a KV head
  std::int64_t head_dim = 0;
  TokenCount window = 0;  // newest tokens that a token attends to, itself included; 0: all
  // The context is cut into pieces of `window` tokens, and tokens attend within their own.
  bool chunked = false;

  int heads_per_kv_head() const { return heads / kv_heads; }
  std::int64_t q_width() const { return heads * head_dim; }
  std::int64_t kv_width() const { return kv_heads * head_dim; }
  /// The first token that the one at `position` attends to.
  TokenCount first_attended(TokenCount position) const {
    if (chunked) return position / window * window;
    return window > 0 ? std::max<TokenCount>(0, position + 1 - window) : 0;
  }
  bool operator==(const AttentionShape&) const = default;
};
/// With latent attention: one KV head, whose rows are latent ones, and queries that were brought to
/// them.
AttentionShape attention_shape(const ModelSpec& spec, int layer);

/// Latent attention (MLA): the cache has one row for all heads, `rank` elements from which keys and
/// values of any head are made, and `turned` elements of the keys that RoPE rotates. A head's query
/// is `plain` elements and `turned` rotated ones; its keys' matrix brings the plain ones to the
/// latent elements (they are "absorbed"), and its values' matrix makes `value` elements of what
/// attention gives.
struct LatentShape {
  std::int64_t rank = 0;  // 0: no latent attention
  std::int64_t plain = 0, turned = 0, value = 0;

  explicit operator bool() const { return rank > 0; }
  std::int64_t query() const { return plain + turned; }
  std::int64_t row() const { return rank + turned; }
};
LatentShape latent_shape(const ModelSpec& spec);

/// How a layer's attention computes, beyond its shape: what may vary from layer to layer. Reference
/// and backends read these alike, and never an architecture's name.
struct AttentionRule {
  int rope = 0;                // which of rope_tables() rotates queries and keys; -1: none does
  float score_scale = 0;       // scores are multiplied by this; 0: 1 / sqrt(head_dim)
  float softcap = 0;           // scores become softcap * tanh(score / softcap); 0: they stay
  bool norms_rotated = false;  // norms of heads are behind RoPE
  bool plain_norms = false;    // ... where heads of queries and keys have norms without weights
  int kv_layer = -1;           // the layer to whose keys and values it attends; -1: itself
};
/// The layer whose keys and values this one attends to: itself, or, of layers that keep none, the
/// last one before them that sees as much.
int kv_layer_of(const ModelSpec& spec, int layer);

struct Layer {
  AttentionShape attention;
  LatentShape latent;
  AttentionRule rule;
  std::vector<LayerOp> ops;                                // operations of the layer, in order
  std::vector<float> attention_norm, attention_norm_bias;  // the bias: empty: none
  Matrix q, k, v, output;
  std::vector<float> q_bias, k_bias, v_bias, output_bias;  // empty: none
  // Of a head's width, or of all heads' (the norm is over all of them then); empty: none.
  std::vector<float> q_norm, k_norm;
  // Of latent attention. Rows of k_b and v_b are those of head 0, of head 1, ...
  Matrix q_a, q_b, kv_a, k_b, v_b;
  std::vector<float> q_a_norm, kv_a_norm;
  std::vector<float> sinks;  // by head: a logit that no value has, in the softmax; empty: none
  // Of a recurrent mixer.
  MixerWidths mixer;
  Matrix mixer_in, mixer_gate, mixer_alpha, mixer_beta, mixer_out;
  std::vector<float> mixer_taps;       // of the convolution, [value][token], the newest last
  std::vector<float> mixer_taps_bias;  // empty: none
  std::vector<float> mixer_time_bias, mixer_decay, mixer_skip, mixer_norm;
  std::vector<float> ffn_norm, ffn_norm_bias;             // the bias: empty: none
  std::vector<float> attention_post_norm, ffn_post_norm;  // of what is added; empty: none
  Matrix gate, up, down;  // matrices of a dense FFN; without a gate: up and down
  std::vector<float> up_bias, down_bias;
  Xielu xielu;  // of an FFN with kXieluMlp
  // Of the token's input of this layer, which joins behind the FFN; empty: none.
  Matrix input_gate, input_projection;
  std::vector<float> input_norm;
  std::vector<float> layer_scale;     // one number, by which the layer's result is multiplied
  Matrix router;                      // router of a MoE layer: a row per expert
  std::vector<float> selection_bias;  // added to experts' probabilities for the choice; empty: none
  // Of experts beside a dense FFN (the shared ones' matrices): norms of what the router and the
  // experts read, and of what either gives. The router's is divided by the root of its width, as
  // its input is. A factor of each expert's output. Empty: none.
  std::vector<float> router_norm, expert_norm, expert_post_norm, expert_scale, shared_post_norm;
  Matrix shared_gate, shared_up, shared_down;  // of the expert that all tokens pass
  std::vector<float> shared_router;            // sigmoid of its product weights that expert
  MatrixStack expert_gate, expert_up, expert_down;
  std::vector<float> router_bias;  // empty: none; likewise below
  std::vector<float> expert_gate_bias, expert_up_bias, expert_down_bias;  // [expert][row]

  float score_scale() const {
    return rule.score_scale > 0 ? rule.score_scale : 1.0f / std::sqrt(float(attention.head_dim));
  }
  /// True if its norm is over all heads of queries, and another over all of keys.
  bool has_wide_head_norms() const {
    return std::int64_t(q_norm.size()) > attention.head_dim ||
           std::int64_t(k_norm.size()) > attention.head_dim;
  }
  /// True if queries have a gate of what attention gives: each head of q's rows has both.
  bool has_attention_gate() const { return uses(ops, OpKind::kTakeGate); }
  bool is_recurrent() const { return mixer.conv_kernel > 0; }
  /// True if neighbouring heads of a delta net share keys, and one matrix (mixer_beta) has the two
  /// gates of their states, by group.
  bool has_grouped_heads() const { return uses(ops, OpKind::kGroupedDeltaNet); }
  /// ... and mixer_in has gates of heads beside what is convolved, by group.
  bool has_grouped_gates() const { return uses(ops, OpKind::kTakeGroupGates); }
  bool has_clamped_experts() const { return uses(ops, OpKind::kClampedExperts); }
  bool has_shared_expert() const { return uses(ops, LayerWeight::kSharedUp); }
  /// True if a recurrent mixer reads what attention reads, side by side.
  bool has_parallel_mixer() const;
  /// True if experts have no gate: up is activated.
  bool has_gated_experts() const { return bool(expert_gate); }
  bool has_gelu() const { return uses(ops, OpKind::kGeluFfn); }
  /// True if the FFN reads what attention reads, side by side.
  bool has_parallel_ffn() const;
  /// True if the heads of values are normed.
  bool norms_values() const;
  float scale() const { return layer_scale.empty() ? 1.0f : layer_scale[0]; }
};

/// A model. Weights may be views; `storage` keeps their memory alive.
struct Model {
  ModelSpec spec;
  Hyperparameters hyper;
  Matrix embedding;  // a row per token of the vocabulary
  Matrix head;       // same as the embedding if they are tied
  std::vector<float> final_norm, final_norm_bias, head_bias;  // biases: empty: none
  // Inputs of layers beside the residual stream (layer_inputs.hpp): a row per token of every
  // layer's, a matrix from the embedding to every layer's, and a norm of one. Empty: none.
  Matrix input_embedding, input_projection;
  std::vector<float> input_norm;
  std::vector<float> rope_factors;  // frequencies are divided by them; empty: none
  // In place of rope_factors where sequences may become longer than hyper.rope_context.
  std::vector<float> long_rope_factors;
  std::vector<Layer> layers;
  std::shared_ptr<const void> storage;
};

/// Chooses between a model's two vectors of RoPE factors, if it has two, for sequences of at most
/// `tokens`; 0: as long as the model's context. Whoever makes an executor calls it: a loaded model
/// has the short ones in rope_factors.
void choose_rope_factors(Model& model, TokenCount tokens);

}  // namespace rigcast::engine
