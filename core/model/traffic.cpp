#include "core/model/traffic.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace rigcast {
namespace {

// `share` of the group's bytes are read, each weight multiplied with `tokens` tokens.
OpTraffic matmul_traffic(const WeightGroup& group, double share, double tokens) {
  OpTraffic t;
  for (std::size_t f = 0; f < group.bytes_by_format.size(); ++f)
    t.weight_bytes_by_format[f] = share * double(group.bytes_by_format[f]);
  t.matmul_flops = 2.0 * double(group.elements()) * tokens;
  t.matrices = group.matrices;
  t.products = group.products;
  t.tokens_per_weight = share > 0 ? tokens / share : 0.0;
  return t;
}

// Cells that the attention of the sequence reads, each once: the first token's window reaches
// furthest back.
TokenCount cells_in_reach(const ModelSpec& model, int layer, const Sequence& b) {
  const TokenCount all = b.cached + b.tokens;
  if (model.sees_all_tokens(layer)) return all;
  return std::min(all, model.window->tokens + b.tokens - 1);
}

// Mean cells that one of its new tokens attends to.
double mean_attended(const ModelSpec& model, int layer, const Sequence& b) {
  const double n = double(b.tokens);
  if (model.sees_all_tokens(layer)) return double(b.cached) + (n + 1) / 2;
  const auto width = model.window->tokens;
  const double growing = double(std::clamp<TokenCount>(width - b.cached, 0, b.tokens));
  const double grown = growing * (double(b.cached) + (growing + 1) / 2);
  return (grown + (n - growing) * double(width)) / n;
}

// Cells that its last new token attends to.
TokenCount last_attended(const ModelSpec& model, int layer, const Sequence& s) {
  return model.sees_all_tokens(layer) ? s.length() : std::min(s.length(), model.window->tokens);
}

// Cells of the layer's cache for the sequence, whoever attends to them.
TokenCount cells_of_cache(const ModelSpec& model, int layer, const Sequence& s, const Batch& b) {
  const TokenCount all = read_cells(s.length(), b.kv_padding);
  if (model.sees_all_tokens(layer)) return all;
  return std::min(
      all, b.window_cells > 0 ? b.window_cells : read_cells(cells_in_reach(model, layer, s), 1));
}

// Mean cells from the first one to that of each new token. Once a window's cells are used again,
// their order is not that of the tokens.
double mean_causal(const Sequence& s, TokenCount cells) {
  if (s.length() > cells) return double(cells);
  return double(s.cached) + (double(s.tokens) + 1) / 2;
}

// The layer whose cache `layer` reads: itself, or the last layer before it with a cache and the
// same window.
int cache_owner(const ModelSpec& model, int layer) {
  int owner = layer;
  while (owner > 0 &&
         !(model.has_kv(owner) && model.sees_all_tokens(owner) == model.sees_all_tokens(layer)))
    --owner;
  return owner;
}

// Vectors into and out of the matrices of an FFN of `width` neurons.
double ffn_vectors(const ModelSpec& model, double tokens, double width) {
  return tokens * (2.0 * double(model.hidden) + (model.gated_ffn ? 3.0 : 2.0) * width);
}

}  // namespace

double OpTraffic::weight_bytes() const {
  return std::accumulate(weight_bytes_by_format.begin(), weight_bytes_by_format.end(), 0.0);
}

Bytes OpTraffic::total() const {
  return {weight_bytes() + kv_read_bytes + kv_write_bytes + 2.0 * kv_copied_bytes +
          activation_bytes};
}

OpTraffic& OpTraffic::operator+=(const OpTraffic& other) {
  for (std::size_t f = 0; f < weight_bytes_by_format.size(); ++f)
    weight_bytes_by_format[f] += other.weight_bytes_by_format[f];
  kv_read_bytes += other.kv_read_bytes;
  kv_write_bytes += other.kv_write_bytes;
  kv_copied_bytes += other.kv_copied_bytes;
  activation_bytes += other.activation_bytes;
  vector_elements += other.vector_elements;
  matmul_flops += other.matmul_flops;
  attention_flops += other.attention_flops;
  single_flops += other.single_flops;
  single_tokens += other.single_tokens;
  prompts += other.prompts;
  prompt_keys += other.prompt_keys;
  causal_flops += other.causal_flops;
  cell_flops += other.cell_flops;
  scanned_values += other.scanned_values;
  choices += other.choices;
  flops_of_score = std::max(flops_of_score, other.flops_of_score);
  kv_heads = std::max(kv_heads, other.kv_heads);
  matrices += other.matrices;
  for (std::size_t i = 0; i < products.size(); ++i) {
    products[i].rows += other.products[i].rows;
    products[i].elements += other.products[i].elements;
  }
  wide_heads = wide_heads || other.wide_heads;
  tokens_per_weight = std::max(tokens_per_weight, other.tokens_per_weight);
  return *this;
}

OpTraffic of_one_token(const OpTraffic& batch, double tokens) {
  OpTraffic one = batch;
  const double read = std::min(1.0, batch.tokens_per_weight / tokens);  // experts: its own
  for (double& bytes : one.weight_bytes_by_format) bytes *= read;
  one.tokens_per_weight = std::min(1.0, batch.tokens_per_weight);
  for (double* part : {&one.kv_write_bytes, &one.kv_copied_bytes, &one.activation_bytes,
                       &one.vector_elements, &one.matmul_flops, &one.attention_flops,
                       &one.single_flops, &one.causal_flops, &one.cell_flops, &one.choices})
    *part /= tokens;
  if (batch.prompts == 0) one.kv_read_bytes /= tokens;
  return one;
}

double expected_experts(int experts, int used, double tokens) {
  const double chance = double(used) / experts;
  return experts * (1.0 - std::pow(1.0 - chance, tokens));
}

TokenCount read_cells(TokenCount cached, TokenCount padding) {
  return (cached + padding - 1) / padding * padding;
}

TokenCount Batch::cached() const {
  TokenCount sum = 0;
  for (const Sequence& s : sequences) sum += s.cached;
  return sum;
}

TokenCount Batch::tokens() const {
  TokenCount sum = 0;
  for (const Sequence& s : sequences) sum += s.tokens;
  return sum;
}

OpTraffic projection_traffic(const ModelSpec& model, const TensorTable& table, int layer,
                             TokenCount tokens) {
  const WeightGroup& weights = table.layers[std::size_t(layer)].attention;
  OpTraffic t = matmul_traffic(weights, 1.0, double(tokens));
  t.activation_bytes = 2.0 * hidden_bytes(model).value * double(tokens);
  t.kv_heads = model.has_attention(layer) ? model.kv_heads_of(layer) : 0;
  const std::int64_t heads =
      2 * (model.heads + model.kv_heads_of(layer)) * model.head_dim_of(layer);
  t.vector_elements = double(tokens) * double(2 * model.hidden + heads);
  return t;
}

// The head width that attention kernels keep in registers.
constexpr double kWideHead = 256;

OpTraffic cache_traffic(const ModelSpec& model, int layer, const Batch& batch, KvTypes types) {
  OpTraffic t;
  if (model.has_attention(layer)) {
    const int owner = cache_owner(model, layer);
    const double per_token = kv_read_bytes_per_token(model, owner, types);
    // Scores and weighted values: two products over every attended cell and query head.
    const double head = double(model.head_dim_of(layer));
    t.kv_heads = model.kv_heads_of(layer);
    const double k_dim =
        model.mla ? double(model.mla->kv_lora_rank + model.mla->qk_rope_dim) : head;
    const double v_dim = model.mla ? double(model.mla->kv_lora_rank) : head;
    t.wide_heads = k_dim > kWideHead;
    t.flops_of_score = 2.0 * (k_dim + v_dim);
    for (const Sequence& s : batch.sequences) {
      const TokenCount seen = cells_in_reach(model, layer, s);
      t.kv_read_bytes += double(read_cells(seen, batch.kv_padding)) * per_token;
      if (model.has_kv(layer))
        t.kv_write_bytes += double(s.tokens) * kv_bytes_per_token(model, owner, types);
      const double of_cell = model.heads * t.flops_of_score * double(s.tokens);
      const TokenCount cells = cells_of_cache(model, layer, s, batch);
      const double flops = of_cell * mean_attended(model, layer, s);
      t.attention_flops += flops;
      if (s.tokens == 1) {
        t.single_flops += flops;
        t.single_tokens += 1;
      } else {
        t.prompts += 1;
        t.prompt_keys += double(last_attended(model, layer, s));
      }
      t.causal_flops += of_cell * mean_causal(s, cells);
      t.cell_flops += of_cell * double(cells);
    }
  }
  if (model.recurrent && model.has_recurrent_mixer(layer)) {
    // Every sequence has a state, which is read and written whole at every step.
    const double state = double(model.recurrent->state_bytes) * double(batch.sequences.size());
    t.kv_read_bytes += state;
    t.kv_write_bytes += state;
    for (const Sequence& s : batch.sequences)
      if (s.tokens > 1)
        t.scanned_values += double(s.tokens) * double(model.recurrent->state_bytes) / sizeof(float);
  }
  return t;
}

OpTraffic attention_traffic(const ModelSpec& model, const TensorTable& table, int layer,
                            const Batch& b, KvTypes types) {
  OpTraffic t = projection_traffic(model, table, layer, b.tokens());
  t += cache_traffic(model, layer, b, types);
  return t;
}

OpTraffic ffn_traffic(const ModelSpec& model, const TensorTable& table, int layer,
                      TokenCount tokens) {
  OpTraffic t = matmul_traffic(table.layers[std::size_t(layer)].ffn, 1.0, double(tokens));
  t.activation_bytes = 2.0 * hidden_bytes(model).value * double(tokens);
  t.vector_elements = ffn_vectors(model, double(tokens), double(model.ffn));
  if (model.is_moe_layer(layer)) t.choices = double(tokens) * double(model.moe->experts_used);
  return t;
}

OpTraffic experts_traffic(const ModelSpec& model, const TensorTable& table, int layer,
                          TokenCount tokens) {
  if (!model.is_moe_layer(layer)) return {};
  const MixtureOfExperts& moe = *model.moe;
  const double touched = expected_experts(moe.experts, moe.experts_used, double(tokens));
  const double chosen = double(moe.experts_used) / moe.experts;
  OpTraffic t = matmul_traffic(table.layers[std::size_t(layer)].experts, touched / moe.experts,
                               chosen * double(tokens));
  t.routed = true;
  t.products = {};
  t.activation_bytes = 2.0 * hidden_bytes(model).value * double(tokens);
  t.vector_elements =
      ffn_vectors(model, double(tokens) * double(moe.experts_used), double(moe.expert_ffn));
  return t;
}

OpTraffic head_traffic(const ModelSpec& model, const TensorTable& table, TokenCount rows) {
  OpTraffic t = matmul_traffic(table.head, 1.0, double(rows));
  t.activation_bytes = (hidden_bytes(model) + logits_bytes(model)).value * double(rows);
  t.vector_elements = double(rows) * double(model.hidden + model.vocabulary);
  return t;
}

Bytes hidden_bytes(const ModelSpec& model) { return {4.0 * double(model.hidden)}; }

Bytes logits_bytes(const ModelSpec& model) { return {4.0 * double(model.vocabulary)}; }

}  // namespace rigcast
