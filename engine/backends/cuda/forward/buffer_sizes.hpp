#pragma once
// The number of elements in the buffers of a GPU's steps, from the shapes of a model.

#include <algorithm>
#include <cstdint>

#include "engine/model/model.hpp"

namespace rigcast::engine::cuda {

/// Widths of the widest dense FFN, of the widest expert that a router chooses, and of the widest
/// that all tokens pass; 0: the model has none.
struct FfnWidths {
  std::int64_t dense = 0, expert = 0, shared = 0;
  std::int64_t widest() const { return std::max({dense, expert, shared}); }
};
FfnWidths ffn_widths(const Model& model);

/// Widths of the widest attention.
struct AttentionWidths {
  std::int64_t q = 0, qkv = 0, heads = 0;
};
AttentionWidths attention_widths(const Model& model);

/// Widths of the widest recurrent mixer, or attention with a gate: of what the first matrices give,
/// of what is convolved, and of what the last matrix takes. 0: the model has none.
struct MixedWidths {
  std::int64_t mixed = 0, convolved = 0, out = 0;
};
MixedWidths mixed_widths(const Model& model);

/// Of latent attention: all projections of a token, the widest input of a product, and the values
/// of all heads; 0: the model has none.
struct LatentSizes {
  std::int64_t projected = 0, input = 0, values = 0;
};
LatentSizes latent_sizes(const Model& model);

/// Tokens whose rows of the inputs' embedding are read at once.
inline constexpr int kOwnInputRows = 64;

/// Elements of ActivationBuffers, except ids, for `tokens` tokens.
struct ActivationSizes {
  std::int64_t hidden = 0;  // of `hidden`, of `normed` and of `quantized`
  std::int64_t projected = 0, rope_cos_sin = 0, queries = 0;
  std::int64_t mixed = 0, convolved = 0;
  std::int64_t layer_inputs = 0, own_inputs = 0;
};
ActivationSizes activation_sizes(const Model& model, int tokens);

/// Elements of DecodeBuffers, except logits and what it takes to choose from them. `splits`: the
/// most parts of a token's attention.
struct TokenSizes {
  std::int64_t attn_out = 0;    // of `attn_out` and of `attn_out_quantized`
  std::int64_t ffn_hidden = 0;  // of `ffn_hidden` and of `ffn_hidden_quantized`
  std::int64_t partial_heads = 0, partial_outputs = 0;
};
TokenSizes token_sizes(const Model& model, int splits);

/// Elements of PrefillBuffers, except weights, for `tokens` tokens.
struct PrefillSizes {
  std::int64_t x = 0, ffn_hidden = 0;
};
PrefillSizes prefill_sizes(const Model& model, int tokens);

/// Elements of the large buffers of SmallBatchBuffers.
struct SmallBatchSizes {
  int tokens = 0;            // of a small batch
  int routed = 0;            // tokens whose experts are multiplied in groups
  std::int64_t choices = 0;  // of experts, by these tokens
  std::int64_t gate_out = 0, ffn_hidden = 0, experts = 0, router_logits = 0;
};
/// `ubatch`: the largest number of tokens in a batch; `routed`: the largest number whose experts
/// may be computed at once.
SmallBatchSizes small_batch_sizes(const Model& model, int ubatch, int routed);

}  // namespace rigcast::engine::cuda
