#include "core/scenario/engine_sizes.hpp"

#include <algorithm>

namespace rigcast {
namespace {

constexpr TokenCount kMaxStep = 16;  // blocks by which slots grow, a fourth where they are few
// A slot of several layers is no larger, and no more than a fourth of all: the ring is there to
// save memory.
constexpr std::int64_t kGroupBytes = 16 << 20;
constexpr int kMinGroups = 4;

int experts_used(const ModelSpec& m) { return m.moe ? m.moe->experts_used : 1; }

// Widths of the widest layers: of a token's queries, of its keys or values, and of all three.
struct AttentionWidths {
  double q = 0, kv = 0, all = 0;
};
AttentionWidths attention_widths(const ModelSpec& m) {
  AttentionWidths most;
  for (int layer = 0; layer < m.layers; ++layer) {
    const double q = double(m.heads * m.head_dim_of(layer)),
                 kv = double(m.kv_heads_of(layer) * m.head_dim_of(layer));
    most = {std::max(most.q, q), std::max(most.kv, kv), std::max(most.all, q + 2 * kv)};
  }
  return most;
}

// Of latent attention, for a token: queries that are brought to the cache's rows, what attention
// makes of them, and the inputs of both products by head.
double latent_floats(const ModelSpec& m) {
  if (!m.mla) return 0;
  const LatentAttention& a = *m.mla;
  const double row = double(a.kv_lora_rank + a.qk_rope_dim);
  return double(m.heads) *
             (2 * row + 2 * double(a.qk_nope_dim + a.kv_lora_rank) + double(a.v_dim)) +
         double(a.q_lora_rank) + row;
}

bool has_layers_of_both_kinds(const ModelSpec& m) {
  bool all = false, windows = false;
  for (int l = 0; l < m.layers; ++l)
    if (m.has_attention(l) && m.has_kv(l)) (m.sees_all_tokens(l) ? all : windows) = true;
  return all && windows;
}

}  // namespace

TokenCount window_ring_blocks(const ModelSpec& model, TokenCount step_tokens,
                              TokenCount block_tokens) {
  if (!model.window) return 0;
  return (model.window->tokens - 1 + step_tokens + block_tokens - 1) / block_tokens + 1;
}

// Of n new tokens a sequence has up to (n + window - 1) / block blocks, rounded up, and one more
// where the window begins within a block. A checkpoint is of a block's end.
TokenCount window_pool_blocks(const ModelSpec& model, std::int64_t sequences,
                              TokenCount step_tokens, TokenCount block_tokens,
                              std::int64_t checkpoints) {
  if (!model.window || !has_layers_of_both_kinds(model)) return 0;
  const TokenCount before = model.window->tokens - 1;
  const TokenCount at_once = (step_tokens + block_tokens - 1) / block_tokens;
  const TokenCount of_window = (before + block_tokens - 1) / block_tokens;
  return at_once + sequences * (of_window + 2) + checkpoints * of_window;
}

int server_checkpoints(const ModelSpec& model, std::size_t sequences) {
  if (!model.recurrent && !has_layers_of_both_kinds(model)) return 0;
  constexpr std::size_t kMinCheckpoints = 8, kMaxCheckpoints = 64;
  return int(
      std::clamp(model.recurrent ? 2 * sequences : sequences, kMinCheckpoints, kMaxCheckpoints));
}

int server_states(const ModelSpec& model, std::size_t sequences, bool prefix_cache) {
  return int(sequences) + (prefix_cache ? server_checkpoints(model, sequences) : 0);
}

KvRing kv_ring(TokenCount cold, int layers, std::int64_t layer_bytes) {
  KvRing ring;
  if (cold <= 0 || layer_bytes <= 0) return ring;
  const TokenCount step = std::clamp<TokenCount>(cold / 4, 1, kMaxStep);
  ring.blocks = (cold + step - 1) / step * step;
  ring.group_layers = int(std::clamp<std::int64_t>(kGroupBytes / (ring.blocks * layer_bytes), 1,
                                                   std::max(1, layers / kMinGroups)));
  return ring;
}

std::size_t expert_slot_bytes(std::size_t expert_bytes, int experts) {
  constexpr std::size_t kSlotBytes = 32 << 20;
  return std::max(expert_bytes, std::min(kSlotBytes, expert_bytes * std::size_t(experts)));
}

// Activations that a product takes are there as F32, as integers with their scales and sums, or as
// both: 6 bytes at most.
double cpu_buffer_bytes(const ModelSpec& m, double tokens) {
  constexpr double kFloat = 4, kInput = 6;
  const AttentionWidths widths = attention_widths(m);
  const double hidden = double(m.hidden), q = widths.q, kv = widths.kv;
  const double latent = latent_floats(m);
  const double rows = experts_used(m);  // of the FFN, for every token
  const double middle = double(m.moe ? m.moe->expert_ffn : m.ffn), dense = double(m.ffn);
  double floats = latent + 2 * hidden + 2 * q + 2 * kv + double(m.head_dim) +
                  2 * std::max(rows * middle, dense);
  double inputs = std::max({hidden, q, middle, dense});
  if (m.moe) {
    const double shared = double(m.moe->shared_ffn);
    floats += rows * hidden + (shared > 0 ? 2 * shared + hidden : 0);
    inputs += rows * (hidden + middle) + shared;
  }
  // Of a recurrent layer what its matrices give, and as much as the widest of them once more.
  if (m.recurrent) floats += 2 * double(m.recurrent->layer_parameters) / hidden;
  return tokens * (kFloat * floats + kInput * inputs) + kFloat * double(m.vocabulary);
}

std::size_t message_floats(const ModelSpec& m) {
  const AttentionWidths widths = attention_widths(m);
  std::int64_t projected = std::int64_t(widths.all);
  if (m.mla) projected = (m.heads + 2) * (m.mla->kv_lora_rank + m.mla->qk_rope_dim);
  const std::int64_t part = std::int64_t(widths.q) + 2 * m.heads;
  return std::size_t(std::max({projected, part, m.hidden + 2 * experts_used(m)}));
}

}  // namespace rigcast
