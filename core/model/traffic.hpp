#pragma once
// Bytes and FLOPs of every operation, as forecasts count them. The engine counts its own bytes; a
// test compares both (tests/engine/backends/cpu/cpu_executor_test.cpp).

#include <array>
#include <optional>
#include <utility>
#include <vector>

#include "core/base/units.hpp"
#include "core/model/kv_bytes.hpp"
#include "core/model/model_spec.hpp"
#include "core/model/quant_format.hpp"
#include "core/model/tensor_table.hpp"

namespace rigcast {

struct OpTraffic {
  std::array<double, kQuantFormatCount> weight_bytes_by_format{};
  double kv_read_bytes = 0;
  double kv_write_bytes = 0;
  double kv_copied_bytes = 0;   // of a cache that grows by copy: read, and written to the new one
  double activation_bytes = 0;  // read and written, F32
  double vector_elements = 0;   // of what matrices take and give, all tokens
  double matmul_flops = 0;
  double attention_flops = 0;  // over the cells that each token attends to
  double single_flops = 0;     // of these, of sequences with one new token
  double single_tokens = 0;    // number of such sequences
  double prompts = 0;          // number of the others,
  double prompt_keys = 0;      // and the cells that the last token of each attends to, together
  // Of kernels that compute cells which the mask hides: those up to each token, before its window
  // too; and every cell of the cache.
  double causal_flops = 0, cell_flops = 0;
  double scanned_values = 0;  // of recurrent states, times the tokens that pass them one by one
  double flops_of_score = 0;  // of attention: the products of one query with one cell
  int kv_heads = 0;           // of the layer's attention; 0: not known
  double choices = 0;         // of experts, by a router: tokens times experts of each
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

/// What one of a batch's `tokens` moves and computes, in the mean, if each is computed for itself.
/// Tokens of a prompt read all of its cache each.
OpTraffic of_one_token(const OpTraffic& batch, double tokens);

/// Distinct experts that `tokens` tokens touch when each picks `used` of `experts` evenly:
/// E (1 - (1 - k/E)^n).
double expected_experts(int experts, int used, double tokens);

/// Tokens whose keys and values the attention of one new token reads when `cached` tokens,
/// itself included, are in the cache: cells come in multiples of `padding`.
TokenCount read_cells(TokenCount cached, TokenCount padding);

/// One sequence's part in a step.
struct Sequence {
  TokenCount cached = 0;  // tokens in its cache before the step
  TokenCount tokens = 1;  // new ones, the last at position cached + tokens
  /// How its cache is filled: ubatches up to `depth`, then the prompt's, then token by token.
  TokenCount depth = 0;
  TokenCount prompt = 0;

  TokenCount length() const { return cached + tokens; }  // when the step has ended
};

/// The sequences that one step computes together. A single user is a batch of one.
struct Batch {
  std::vector<Sequence> sequences;
  TokenCount kv_padding = 1;      // attention reads every sequence's cells in multiples of this
  TokenCount window_cells = 0;    // of a layer with a window; 0: those that its tokens reach
  bool ends_prompt = true;        // of a step with logits: one of them is a prompt's last token's
  TokenCount without_logits = 0;  // of a step with logits: sequences of which none are wanted

  Batch(std::vector<Sequence> all, TokenCount padding)
      : sequences(std::move(all)), kv_padding(padding) {}
  /// A batch of one sequence.
  Batch(TokenCount cached, TokenCount tokens, TokenCount padding = 1)
      : sequences{{cached, tokens}}, kv_padding(padding) {}

  TokenCount cached() const;  // before the step, of all sequences
  TokenCount tokens() const;  // new ones, of all sequences
};

/// Norm, q, k, v, attention over the cache, output projection; a recurrent layer's mixer.
OpTraffic attention_traffic(const ModelSpec& model, const TensorTable& table, int layer,
                            const Batch& batch, KvTypes types);
/// The traffic of a layer's projections, without attention over the cache, for layers where that is
/// computed elsewhere.
OpTraffic projection_traffic(const ModelSpec& model, const TensorTable& table, int layer,
                             TokenCount tokens);
/// The attention over the cache alone.
OpTraffic cache_traffic(const ModelSpec& model, int layer, const Batch& batch, KvTypes types);
/// A dense FFN; of a MoE layer the router and the shared experts.
OpTraffic ffn_traffic(const ModelSpec& model, const TensorTable& table, int layer,
                      TokenCount tokens);
/// The routed experts of a MoE layer; nothing for a dense one.
OpTraffic experts_traffic(const ModelSpec& model, const TensorTable& table, int layer,
                          TokenCount tokens);
/// Final norm and output matrix for `rows` rows of logits.
OpTraffic head_traffic(const ModelSpec& model, const TensorTable& table, TokenCount rows);

/// Bytes of one token's hidden state, F32.
Bytes hidden_bytes(const ModelSpec& model);
/// Bytes of one row of logits, F32.
Bytes logits_bytes(const ModelSpec& model);

}  // namespace rigcast
