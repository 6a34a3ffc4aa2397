#include "engine/backends/cuda/forward/buffers.cuh"

#include <algorithm>
#include <utility>
#include <vector>

#include "engine/backends/cuda/forward/buffer_sizes.hpp"
#include "engine/cuda/cuda_call.cuh"
#include "engine/kernels/cuda/batch/small_batch_gemm.cuh"

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

void allocate_activations(ActivationBuffers& v, const Model& model, int ubatch, Vram& vram) {
  const ActivationSizes sizes = activation_sizes(model, ubatch);
  Pieces all;
  all.add(v.ids, ubatch);
  all.add(v.hidden, sizes.hidden);
  all.add(v.normed, sizes.hidden);
  all.add(v.quantized, sizes.hidden);
  all.add(v.projected, sizes.projected);
  all.add(v.rope_cos_sin, sizes.rope_cos_sin);
  all.add(v.queries, sizes.queries);
  all.add(v.mixed, sizes.mixed);
  all.add(v.convolved, sizes.convolved);
  if (sizes.layer_inputs > 0) {
    all.add(v.layer_inputs, sizes.layer_inputs);
    all.add(v.own_inputs, sizes.own_inputs);
  }
  v.memory = all.allocate(vram);
  v.tokens = ubatch;
  v.projected_floats = sizes.projected;
}

void allocate_token_buffers(DecodeBuffers& v, const Model& model, int splits, Vram& vram) {
  const ModelSpec& m = model.spec;
  const int used = experts_used(m);
  const TokenSizes sizes = token_sizes(model, splits);
  Pieces one;
  one.add(v.attn_out, sizes.attn_out);
  one.add(v.attn_out_quantized, sizes.attn_out);
  one.add(v.ffn_hidden, sizes.ffn_hidden);
  one.add(v.ffn_hidden_quantized, sizes.ffn_hidden);
  one.add(v.chosen.ids, used);
  one.add(v.chosen.weights, used);
  one.add(v.shared_weight, 1);
  one.add(v.router_logits, m.moe ? m.moe->experts : 1);
  one.add(v.arrivals, 1);
  one.add(v.attention_arrivals, sizes.partial_heads / splits);
  one.add(v.partials.m, sizes.partial_heads);
  one.add(v.partials.l, sizes.partial_heads);
  one.add(v.partials.o, sizes.partial_outputs);
  one.add(v.logits, m.vocabulary);
  one.add(v.argmax, 1);
  one.add(v.sampling, 1);
  one.add(v.position, 1);
  one.add(v.state, 1);
  v.memory = one.allocate(vram);
  v.chosen.used = used;
}

// Allocates the buffers. `ubatch`: the largest number of tokens in a batch; `routed`: the largest
// number whose experts are computed at once.
SmallBatchBuffers small_batch_buffers(const Model& model, int ubatch, int routed, Vram& vram) {
  SmallBatchBuffers v;
  if (!has_small_batch_gemm()) return v;
  const SmallBatchSizes sizes = small_batch_sizes(model, ubatch, routed);
  v.tokens = sizes.tokens;
  v.routed = sizes.routed;
  Pieces all;
  all.add(v.gate_out, sizes.gate_out);
  if (v.routed > 0) {
    const MixtureOfExperts& moe = *model.spec.moe;
    ExpertGroups& g = v.groups;
    g.experts = moe.experts;
    g.chosen.used = moe.experts_used;
    all.add(v.ffn_hidden, sizes.ffn_hidden);
    all.add(v.experts, sizes.experts);
    all.add(v.router_logits, sizes.router_logits);
    all.add(g.chosen.ids, sizes.choices);
    all.add(g.chosen.weights, sizes.choices);
    all.add(g.counts, g.experts);
    all.add(g.order, sizes.choices);
    all.add(g.groups, most_groups(v.routed, g.chosen.used, g.experts, kMinGroupTokens));
    all.add(g.group_count, 1);
  }
  v.memory = all.allocate(vram);
  if (v.ffn_hidden)
    v.tiled_room = v.ffn_hidden + sizes.ffn_hidden - reinterpret_cast<__half*>(v.gate_out);
  return v;
}

}  // namespace

Buffers::Buffers(const Model& model, int ubatch, int splits, Vram& vram, const Stream& stream)
    : next_ids(2 * sizeof(std::int32_t), "next token") {
  allocate_activations(vectors, model, ubatch, vram);
  allocate_token_buffers(token, model, splits, vram);
  RIGCAST_CUDA_CALL(
      cudaMemsetAsync(token.memory.as<std::byte>(), 0, token.memory.bytes(), stream.get()));
  // Where cuBLAS writes: initcheck does not see its writes.
  const ActivationSizes sizes = activation_sizes(model, ubatch);
  const auto clear = [&](float* to, std::int64_t count) {
    RIGCAST_CUDA_CALL(cudaMemsetAsync(to, 0, std::size_t(count) * sizeof(float), stream.get()));
  };
  clear(vectors.projected, sizes.projected);
  clear(vectors.mixed, sizes.mixed);
  clear(vectors.normed, sizes.hidden);
}

void Buffers::allocate_for_batches(const Model& model, std::int64_t fp16_weights, int routed,
                                   Vram& vram, const Stream& stream) {
  const PrefillSizes sizes = prefill_sizes(model, vectors.tokens);
  Pieces many;
  many.add(batch.x, sizes.x);
  many.add(batch.ffn_hidden, sizes.ffn_hidden);
  many.add(batch.weights, fp16_weights);
  many.add(batch.shared_weights, vectors.tokens);
  batch.memory = many.allocate(vram);
  batch.x_values = sizes.x;
  // Only cuBLAS writes this memory, and initcheck does not see its writes.
  RIGCAST_CUDA_CALL(cudaMemsetAsync(batch.ffn_hidden, 0,
                                    std::size_t(sizes.ffn_hidden) * sizeof(__half), stream.get()));
  small_batch = small_batch_buffers(model, vectors.tokens, routed, vram);
}

}  // namespace rigcast::engine::cuda
