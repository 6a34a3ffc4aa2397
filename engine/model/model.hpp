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
AttentionShape attention_shape(const ModelSpec& spec, int layer);

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
  AttentionRule rule;
  std::vector<LayerOp> ops;                                // operations of the layer, in order
  std::vector<float> attention_norm, attention_norm_bias;  // the bias: empty: none
  Matrix q, k, v, output;
  std::vector<float> q_bias, k_bias, v_bias, output_bias;  // empty: none
  // Of a head's width, or of all heads' (the norm is over all of them then); empty: none.
  std::vector<float> q_norm, k_norm;
  std::vector<float> sinks;  // by head: a logit that no value has, in the softmax; empty: none
  std::vector<float> ffn_norm;
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
  bool has_clamped_experts() const { return uses(ops, OpKind::kClampedExperts); }
  bool has_shared_expert() const { return uses(ops, OpKind::kSharedExpert); }
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
