#pragma once
// A model ready for computation: spec, hyperparameters and weights.

#include <algorithm>
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

  int heads_per_kv_head() const { return heads / kv_heads; }
  std::int64_t q_width() const { return heads * head_dim; }
  std::int64_t kv_width() const { return kv_heads * head_dim; }
  /// The first token that the one at `position` attends to.
  TokenCount first_attended(TokenCount position) const {
    return window > 0 ? std::max<TokenCount>(0, position + 1 - window) : 0;
  }
  bool operator==(const AttentionShape&) const = default;
};
AttentionShape attention_shape(const ModelSpec& spec, int layer);

struct Layer {
  AttentionShape attention;
  std::vector<LayerOp> ops;  // operations of the layer, in order
  std::vector<float> attention_norm;
  Matrix q, k, v, output;
  std::vector<float> q_bias, k_bias, v_bias, output_bias;  // empty: none
  std::vector<float> q_norm, k_norm;                       // weights of a head's width; empty: none
  std::vector<float> ffn_norm;
  Matrix gate, up, down;  // matrices of a dense FFN
  Matrix router;          // router of a MoE layer: a row per expert
  MatrixStack expert_gate, expert_up, expert_down;
};

/// A model. Weights may be views; `storage` keeps their memory alive.
struct Model {
  ModelSpec spec;
  Hyperparameters hyper;
  Matrix embedding;  // a row per token of the vocabulary
  Matrix head;       // same as the embedding if they are tied
  std::vector<float> final_norm;
  std::vector<float> rope_factors;  // frequencies are divided by them; empty: none
  std::vector<Layer> layers;
  std::shared_ptr<const void> storage;
};

}  // namespace rigcast::engine
