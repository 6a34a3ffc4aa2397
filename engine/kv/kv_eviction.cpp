#include "engine/kv/kv_eviction.hpp"

#include <algorithm>

#include "core/base/error.hpp"
#include "core/scenario/engine_sizes.hpp"

namespace rigcast::engine {
namespace {

TokenCount blocks_for(TokenCount tokens, TokenCount block_tokens) {
  return (tokens + block_tokens - 1) / block_tokens;
}

// KvEviction::two_step_blocks. The second step needs them all, because only blocks that were full
// before the first one leave meanwhile.
TokenCount two_step_blocks(const Workload& w, TokenCount ubatch, TokenCount block_tokens) {
  TokenCount most = 0, begin = 0, blocks = 0;  // `begin`: of the last step that wrote new blocks
  const auto step = [&](TokenCount cached, TokenCount tokens) {
    const TokenCount wanted = blocks_for(cached + tokens, block_tokens);
    if (wanted == blocks) return;
    most = std::max(most, wanted - begin / block_tokens);
    begin = cached;
    blocks = wanted;
  };
  TokenCount cached = 0;
  for (const TokenCount end : {w.depth, w.depth + w.prompt_tokens})
    for (; cached < end; cached = std::min(end, cached + ubatch))
      step(cached, std::min(ubatch, end - cached));
  step(blocks * block_tokens, 1);  // the first token that begins a block
  return std::max<TokenCount>(most, 2);
}

// The ring through which cold blocks return, and the lists by which kernels find its slots.
double ring_bytes(const KvBlockBytes& b, TokenCount cold) {
  const KvRing ring = kv_ring(cold, b.layers, b.cold_layer_bytes);
  const double slots = double(ring.layers()) * double(ring.blocks);
  const double dequantized = b.converts_type ? double(ring.blocks) : 0;
  const double pointers = (slots + double(ring.blocks)) * sizeof(void*);
  return slots * double(b.cold_layer_bytes) + dequantized * double(b.hot_layer_bytes) + pointers;
}

double gpu_bytes(const KvEviction& e, const KvBlockBytes& b, TokenCount hot) {
  const TokenCount held = max_held_blocks(e, hot, b.block_tokens);
  const TokenCount full = e.context / b.block_tokens;
  const TokenCount cold =
      std::clamp<TokenCount>(blocks_for(e.context, b.block_tokens) - hot, 0, full);
  return double(held) * double(b.layers) * double(b.hot_layer_bytes) + ring_bytes(b, cold);
}

}  // namespace

std::optional<KvEviction> kv_eviction_of(const Scenario& s) {
  if (s.kv.policy == KvPolicy::kStream) return KvEviction{.hot_tokens = 0};
  if (!evicts(s.kv.policy)) return std::nullopt;
  const Workload& w = s.workload;
  KvEviction e;
  e.threshold = s.kv.threshold;
  e.min_hot_tokens = s.kv.hot_tokens;
  e.context = std::max(w.context, w.last_position());
  e.prompt_end = w.depth + w.prompt_tokens;
  e.max_batch_tokens =
      std::clamp<TokenCount>(std::max(w.depth, w.prompt_tokens), 1, s.settings.ubatch);
  e.two_step_blocks = two_step_blocks(w, s.settings.ubatch, s.kv.block_tokens);
  return e;
}

TokenCount max_held_blocks(const KvEviction& e, TokenCount hot, TokenCount block_tokens) {
  const auto blocks = [&](TokenCount tokens) { return blocks_for(tokens, block_tokens); };
  const TokenCount with_batch = std::min(blocks(e.prompt_end), hot + blocks(e.max_batch_tokens));
  return std::min(blocks(e.context), std::max({e.two_step_blocks, with_batch, hot + 1}));
}

TokenCount blocks_to_evict(TokenCount wanted, TokenCount cold, TokenCount hot, TokenCount cached,
                           TokenCount block_tokens) {
  return std::max<TokenCount>(0, std::min(wanted - hot, cached / block_tokens) - cold);
}

TokenCount hot_blocks(const KvEviction& e, const KvBlockBytes& b, double available_bytes) {
  if (e.hot_tokens) return blocks_for(*e.hot_tokens, b.block_tokens);
  RIGCAST_ASSERT(e.context > 0);
  const TokenCount all = blocks_for(e.context, b.block_tokens);
  TokenCount hot = all;
  while (hot > 0 && gpu_bytes(e, b, hot) > available_bytes) --hot;
  return std::max(hot, std::min(all, blocks_for(e.min_hot_tokens, b.block_tokens)));
}

}  // namespace rigcast::engine
