#include "engine/backends/cuda/forward/buffers.cuh"

#include <algorithm>
#include <utility>
#include <vector>

#include "core/scenario/engine_memory.hpp"
#include "engine/backends/cuda/weights/expert_groups.cuh"
#include "engine/backends/cuda/weights/placed_model.cuh"
#include "engine/cuda/cuda_call.cuh"

namespace rigcast::engine::cuda {
namespace {

// Pieces of one allocation, each aligned to 256 bytes: first counted, then handed out.
class Pieces {
 public:
  template <class T>
  void add(T*& place, std::int64_t count) {
    wishes_.push_back({reinterpret_cast<void**>(&place), bytes_});
    bytes_ += (std::size_t(std::max<std::int64_t>(count, 1)) * sizeof(T) + 255) / 256 * 256;
  }
  void add(Rounded& r, std::int64_t count) {
    add(r.q, count);
    add(r.scale, count / 32);
    add(r.sum16, count / 16);
  }
  VramPiece take(Vram& vram) {
    VramPiece memory = vram.take(bytes_, "activations");
    for (const auto& [place, at] : wishes_) *place = memory.as<std::byte>() + at;
    return memory;
  }

 private:
  std::vector<std::pair<void**, std::size_t>> wishes_;
  std::size_t bytes_ = 0;
};

int experts_used(const ModelSpec& spec) { return spec.moe ? spec.moe->experts_used : 1; }

// Of the widest FFN and of the widest expert.
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

// Of the widest attention.
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

void take_vectors(Vectors& v, const Model& model, int ubatch, Vram& vram) {
  const ModelSpec& m = model.spec;
  const std::int64_t n = ubatch, hidden = m.hidden;
  const AttentionWidths widths = attention_widths(model);
  Pieces all;
  all.add(v.ids, n);
  all.add(v.hidden, n * hidden);
  all.add(v.normed, n * hidden);
  all.add(v.rounded, n * hidden);
  all.add(v.projected, n * widths.qkv);
  all.add(v.turns, n * (model.hyper.rope_dims / 2));
  all.add(v.queries, n * widths.q);
  v.memory = all.take(vram);
  v.tokens = ubatch;
}

void take_token_vectors(TokenVectors& v, const Model& model, int splits, Vram& vram) {
  const ModelSpec& m = model.spec;
  const int used = experts_used(m);
  const std::int64_t middle = ffn_widths(model).widest();
  const AttentionWidths widths = attention_widths(model);
  Pieces one;
  one.add(v.mixed, widths.q);
  one.add(v.mixed_rounded, widths.q);
  one.add(v.middle, middle * used);
  one.add(v.middle_rounded, middle * used);
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
  v.memory = one.take(vram);
  v.chosen.used = used;
}

// `ubatch`: tokens of a batch at most; `routed`: of those whose experts are taken at once.
ShortVectors short_vectors(const Model& model, int ubatch, int routed, Vram& vram) {
  ShortVectors v;
  if (!has_short_batch()) return v;
  const ModelSpec& m = model.spec;
  const int used = experts_used(m);
  v.tokens = std::min(ubatch, kMostShortBatch);
  if (m.moe && std::ranges::any_of(model.layers, takes_groups<Layer>))
    v.routed = std::min(ubatch, routed);
  const std::int64_t choices = std::int64_t(v.routed) * used;
  const FfnWidths widths = ffn_widths(model);
  Pieces all;
  all.add(v.between, std::max(v.tokens * widths.dense, choices * widths.expert));
  if (v.routed > 0) {
    ExpertGroups& g = v.groups;
    g.experts = m.moe->experts;
    g.chosen.used = used;
    all.add(v.middle, choices * widths.expert);
    all.add(v.experts, choices * m.hidden);
    all.add(v.router_logits, std::int64_t(v.routed) * g.experts);
    all.add(g.chosen.ids, choices);
    all.add(g.chosen.weights, choices);
    all.add(g.counts, g.experts);
    all.add(g.order, choices);
    all.add(g.groups, most_groups(v.routed, used, g.experts, kLeastGroupTokens));
    all.add(g.group_count, 1);
  }
  v.memory = all.take(vram);
  return v;
}

}  // namespace

Buffers::Buffers(const Model& model, int ubatch, int splits, Vram& vram, const Stream& stream)
    : next_id(sizeof(std::int32_t), "next token") {
  take_vectors(vectors, model, ubatch, vram);
  take_token_vectors(token, model, splits, vram);
  RIGCAST_CUDA_CALL(
      cudaMemsetAsync(token.memory.as<std::byte>(), 0, token.memory.bytes(), stream.get()));
  // What nobody but cuBLAS writes: initcheck does not see that it does.
  RIGCAST_CUDA_CALL(cudaMemsetAsync(
      vectors.projected, 0,
      std::size_t(ubatch) * std::size_t(attention_widths(model).qkv) * sizeof(float),
      stream.get()));
}

void Buffers::take_for_batches(const Model& model, std::int64_t fp16_weights, int routed,
                               Vram& vram, const Stream& stream) {
  const ModelSpec& m = model.spec;
  const std::int64_t n = vectors.tokens, middle = ffn_widths(model).widest();
  Pieces many;
  many.add(batch.x, n * std::max<std::int64_t>({m.hidden, attention_widths(model).q, middle}));
  many.add(batch.middle, 2 * n * middle);
  many.add(batch.weights, fp16_weights);
  batch.memory = many.take(vram);
  // What nobody but cuBLAS writes: initcheck does not see that it does.
  RIGCAST_CUDA_CALL(
      cudaMemsetAsync(batch.middle, 0, std::size_t(2 * n * middle) * sizeof(__half), stream.get()));
  shorts = short_vectors(model, vectors.tokens, routed, vram);
}

}  // namespace rigcast::engine::cuda
