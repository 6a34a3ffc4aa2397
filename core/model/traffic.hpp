#pragma once
// Bytes and FLOPs of every operation: the only place that counts them. The simulator charges what
// these functions return and the engine reports its rates with the same functions.

#include <array>
#include <optional>

#include "core/base/units.hpp"
#include "core/model/kv_cache.hpp"
#include "core/model/model_spec.hpp"
#include "core/model/quant_format.hpp"
#include "core/model/tensor_table.hpp"

namespace rigcast {

struct OpTraffic {
  std::array<double, kQuantFormatCount> weight_bytes_by_format{};
  double kv_read_bytes = 0;
  double kv_write_bytes = 0;
  double activation_bytes = 0;  // read and written, F32
  double vector_elements = 0;   // of what matrices take and give, all tokens
  double matmul_flops = 0;
  double attention_flops = 0;
  int matrices = 0;
  std::array<ProductShape, WeightGroup::kProducts> products{};  // where not routed
  bool routed = false;                                          // to experts: each token to a few
  std::optional<QuantFormat> cache_format;  // of what is read of the cache, where not as set
  bool wide_heads = false;                  // of the cache: more than 256 dimensions
  double tokens_per_weight = 0;  // tokens that share one reading of a weight: fewer for an expert

  double weight_bytes() const;
  Bytes total() const;
  OpTraffic& operator+=(const OpTraffic& other);
};

/// Distinct experts that `tokens` tokens touch when each picks `used` of `experts` evenly:
/// E (1 - (1 - k/E)^n).
double expected_experts(int experts, int used, double tokens);

/// Tokens whose keys and values the attention of one new token reads when `cached` tokens,
/// itself included, are in the cache: cells come in multiples of `padding`.
TokenCount read_cells(TokenCount cached, TokenCount padding);

/// One batch of `tokens` new tokens, the last at position cached + tokens.
struct BatchShape {
  TokenCount cached = 0;  // tokens in the cache before the batch
  TokenCount tokens = 1;
  TokenCount kv_padding = 1;
};

/// Norm, q, k, v, attention over the cache, output projection; a recurrent layer's mixer.
OpTraffic attention_traffic(const ModelSpec& model, const TensorTable& table, int layer,
                            BatchShape batch, KvTypes types);
/// The same without the attention over the cache: where that is computed elsewhere.
OpTraffic projection_traffic(const ModelSpec& model, const TensorTable& table, int layer,
                             TokenCount tokens);
/// The attention over the cache alone.
OpTraffic cache_traffic(const ModelSpec& model, int layer, BatchShape batch, KvTypes types);
/// A dense FFN; of a MoE layer the router and the shared experts.
OpTraffic ffn_traffic(const ModelSpec& model, const TensorTable& table, int layer,
                      TokenCount tokens);
/// The routed experts of a MoE layer; nothing for a dense one.
OpTraffic experts_traffic(const ModelSpec& model, const TensorTable& table, int layer,
                          TokenCount tokens);
/// Final norm and output matrix for `rows` rows of logits.
OpTraffic head_traffic(const ModelSpec& model, const TensorTable& table, TokenCount rows);

/// Everything a decode step reads: the sum over layers and head.
OpTraffic decode_traffic(const ModelSpec& model, const TensorTable& table, BatchShape batch,
                         KvTypes types);

/// Bytes of one token's hidden state, F32.
Bytes hidden_bytes(const ModelSpec& model);
/// Bytes of one row of logits, F32.
Bytes logits_bytes(const ModelSpec& model);

}  // namespace rigcast
