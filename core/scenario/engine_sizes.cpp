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

}  // namespace

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
  const double hidden = double(m.hidden), q = double(m.heads * m.head_dim),
               kv = double(m.kv_heads * m.head_dim);
  const double rows = experts_used(m);  // of the FFN, for every token
  const double middle = double(m.moe ? m.moe->expert_ffn : m.ffn), dense = double(m.ffn);
  double floats =
      2 * hidden + 2 * q + 2 * kv + double(m.head_dim) + 2 * std::max(rows * middle, dense);
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
  const std::int64_t projected = (m.heads + 2 * m.kv_heads) * m.head_dim;
  const std::int64_t part = m.heads * (m.head_dim + 2);
  return std::size_t(std::max({projected, part, m.hidden + 2 * experts_used(m)}));
}

}  // namespace rigcast
