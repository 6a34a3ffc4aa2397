#include "engine/backends/cuda/forward/buffers.cuh"

#include <algorithm>
#include <utility>
#include <vector>

#include "core/scenario/batch_limits.hpp"
#include "engine/backends/cuda/weights/expert_groups.cuh"
#include "engine/backends/cuda/weights/placed_model.cuh"
#include "engine/cuda/cuda_call.cuh"

namespace rigcast::engine::cuda {
namespace {

// Pieces of one allocation, each aligned to 256 bytes: their sizes are added up first, then
// pointers are assigned.
class Pieces {
 public:
  template <class T>
  void add(T*& place, std::int64_t count) {
    wishes_.push_back({reinterpret_cast<void**>(&place), bytes_});
    bytes_ += (std::size_t(std::max<std::int64_t>(count, 1)) * sizeof(T) + 255) / 256 * 256;
  }
  void add(QuantizedActivations& r, std::int64_t count) {
    add(r.q, count);
    add(r.scale, count / 32);
    add(r.sum16, count / 16);
  }
  VramPiece allocate(Vram& vram) {
    VramPiece memory = vram.allocate(bytes_, "activations");
    for (const auto& [place, at] : wishes_) *place = memory.as<std::byte>() + at;
    return memory;
  }

 private:
  std::vector<std::pair<void**, std::size_t>> wishes_;
  std::size_t bytes_ = 0;
};

int experts_used(const ModelSpec& spec) { return spec.moe ? spec.moe->experts_used : 1; }

// Widths of the widest dense FFN and of the widest expert.
struct FfnWidths {
  std::int64_t dense = 0, expert = 0;
  std::int64_t widest() const { return std::max(dense, expert); }
};
FfnWidths ffn_widths(const Model& model) {
  FfnWidths widths;
  for (const Layer& l : model.layers) {
    widths.dense = std::max(widths.dense, l.down.columns);
    widths.expert = std::max(widths.expert, l.expert_down.first.columns);
  }
  return widths;
}

// Widths of the widest attention.
struct AttentionWidths {
  int q = 0, qkv = 0, heads = 0;
};
AttentionWidths attention_widths(const Model& model) {
  AttentionWidths widths;
  for (const Layer& l : model.layers) {
    widths.q = std::max(widths.q, q_width(l.attention));
    widths.qkv = std::max(widths.qkv, qkv_width(l.attention));
    widths.heads = std::max(widths.heads, l.attention.heads);
  }
  return widths;
}

void allocate_activations(ActivationBuffers& v, const Model& model, int ubatch, Vram& vram) {
  const ModelSpec& m = model.spec;
  const std::int64_t n = ubatch, hidden = m.hidden;
  const AttentionWidths widths = attention_widths(model);
  Pieces all;
  all.add(v.ids, n);
  all.add(v.hidden, n * hidden);
  all.add(v.normed, n * hidden);
  all.add(v.quantized, n * hidden);
  all.add(v.projected, n * widths.qkv);
  all.add(v.rope_cos_sin, n * (model.hyper.rope_dims / 2));
  all.add(v.queries, n * widths.q);
  v.memory = all.allocate(vram);
  v.tokens = ubatch;
}

void allocate_token_buffers(DecodeBuffers& v, const Model& model, int splits, Vram& vram) {
  const ModelSpec& m = model.spec;
  const int used = experts_used(m);
  const std::int64_t ffn_hidden = ffn_widths(model).widest();
  const AttentionWidths widths = attention_widths(model);
  Pieces one;
  one.add(v.attn_out, widths.q);
  one.add(v.attn_out_quantized, widths.q);
  one.add(v.ffn_hidden, ffn_hidden * used);
  one.add(v.ffn_hidden_quantized, ffn_hidden * used);
  one.add(v.chosen.ids, used);
  one.add(v.chosen.weights, used);
  one.add(v.router_logits, m.moe ? m.moe->experts : 1);
  one.add(v.arrivals, 1);
  one.add(v.partials.m, std::int64_t(splits) * widths.heads);
  one.add(v.partials.l, std::int64_t(splits) * widths.heads);
  one.add(v.partials.o, std::int64_t(splits) * widths.q);
  one.add(v.logits, m.vocabulary);
  one.add(v.argmax, 1);
  one.add(v.sampling, 1);
  one.add(v.position, 1);
  v.memory = one.allocate(vram);
  v.chosen.used = used;
}

// Allocates the buffers. `ubatch`: the largest number of tokens in a batch; `routed`: the largest
// number whose experts are computed at once.
SmallBatchBuffers small_batch_buffers(const Model& model, int ubatch, int routed, Vram& vram) {
  SmallBatchBuffers v;
  if (!has_small_batch_gemm()) return v;
  const ModelSpec& m = model.spec;
  const int used = experts_used(m);
  v.tokens = std::min(ubatch, kMaxSmallBatch);
  if (m.moe && std::ranges::any_of(model.layers, supports_grouped_gemm<Layer>))
    v.routed = std::min(ubatch, routed);
  const std::int64_t choices = std::int64_t(v.routed) * used;
  const FfnWidths widths = ffn_widths(model);
  Pieces all;
  all.add(v.gate_out, std::max(v.tokens * widths.dense, choices * widths.expert));
  if (v.routed > 0) {
    ExpertGroups& g = v.groups;
    g.experts = m.moe->experts;
    g.chosen.used = used;
    all.add(v.ffn_hidden, choices * widths.expert);
    all.add(v.experts, choices * m.hidden);
    all.add(v.router_logits, std::int64_t(v.routed) * g.experts);
    all.add(g.chosen.ids, choices);
    all.add(g.chosen.weights, choices);
    all.add(g.counts, g.experts);
    all.add(g.order, choices);
    all.add(g.groups, most_groups(v.routed, used, g.experts, kMinGroupTokens));
    all.add(g.group_count, 1);
  }
  v.memory = all.allocate(vram);
  return v;
}

}  // namespace

Buffers::Buffers(const Model& model, int ubatch, int splits, Vram& vram, const Stream& stream)
    : next_id(sizeof(std::int32_t), "next token") {
  allocate_activations(vectors, model, ubatch, vram);
  allocate_token_buffers(token, model, splits, vram);
  RIGCAST_CUDA_CALL(
      cudaMemsetAsync(token.memory.as<std::byte>(), 0, token.memory.bytes(), stream.get()));
  // Only cuBLAS writes this memory, and initcheck does not see its writes.
  RIGCAST_CUDA_CALL(cudaMemsetAsync(
      vectors.projected, 0,
      std::size_t(ubatch) * std::size_t(attention_widths(model).qkv) * sizeof(float),
      stream.get()));
}

void Buffers::allocate_for_batches(const Model& model, std::int64_t fp16_weights, int routed,
                                   Vram& vram, const Stream& stream) {
  const ModelSpec& m = model.spec;
  const std::int64_t n = vectors.tokens, ffn_hidden = ffn_widths(model).widest();
  Pieces many;
  many.add(batch.x, n * std::max<std::int64_t>({m.hidden, attention_widths(model).q, ffn_hidden}));
  many.add(batch.ffn_hidden, 2 * n * ffn_hidden);
  many.add(batch.weights, fp16_weights);
  batch.memory = many.allocate(vram);
  // Only cuBLAS writes this memory, and initcheck does not see its writes.
  RIGCAST_CUDA_CALL(cudaMemsetAsync(
      batch.ffn_hidden, 0, std::size_t(2 * n * ffn_hidden) * sizeof(__half), stream.get()));
  small_batch = small_batch_buffers(model, vectors.tokens, routed, vram);
}

}  // namespace rigcast::engine::cuda
