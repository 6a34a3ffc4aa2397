#include "engine/backends/cuda/forward/batch.cuh"

#include "engine/backends/cuda/forward/batch_experts.cuh"
#include "engine/backends/cuda/forward/batch_products.cuh"
#include "engine/kernels/cuda/activations/elementwise.cuh"
#include "engine/kernels/cuda/attention/prefill_attention.cuh"
#include "engine/kernels/cuda/kv/place.cuh"
#include "engine/kernels/cuda/weights/dequantize.cuh"

namespace rigcast::engine::cuda {
namespace {

// A whole batch of so many tokens may be queued: it takes a fraction of a second after the longest
// of contexts, and marks between its kernels would keep them from beginning early.
constexpr int kUnpaced = 512;

// batch.x = the mix of a layer for vectors.projected, whose keys and values go to `cache`.
void attend_batch(const ForwardContext& f, const Cache& cache, int kept, int layer, int tokens) {
  const Vectors& v = f.buffers.vectors;
  const AttentionShape& a = f.layer(layer).attention;
  attend_causally(f.stream, {v.queries, tokens, a.heads, int(a.window)}, cache, kept,
                  f.buffers.token.position, f.buffers.batch.x);
}

void place_tokens(const ForwardContext& f, const Cache& cache, int kept, int layer, int tokens) {
  place(f.stream, placement_of(f, layer), cache, kept, tokens, f.buffers.token.position,
        f.buffers.vectors.queries);
}

// With the GPU's cache.
void attend_here(const ForwardContext& f, KvState& kv, int layer, int tokens) {
  const Cache cache = kv.cache().view(layer);
  const int kept = kv.cache().layer(layer);
  place_tokens(f, cache, kept, layer, tokens);
  kv.await(kept);
  attend_batch(f, cache, kept, layer, tokens);
  kv.done(kept);
}

// With a lent layer's cache, which has been copied from the host's and goes back there.
void attend_staged(const ForwardContext& f, StagedCache& cache, TokenCount cached, int layer,
                   int tokens) {
  place_tokens(f, cache.view(), 0, layer, tokens);
  attend_batch(f, cache.view(), 0, layer, tokens);
  cache.store(layer, cached, tokens);
}

void attend_on_host(const ForwardContext& f, HostOffload& host, TokenCount cached, int layer,
                    int tokens) {
  float* const projected = f.buffers.vectors.projected;
  host.attend(layer, {projected, cached, tokens});
  to_halves(f.stream, projected, std::int64_t(tokens) * q_width(f.layer(layer).attention),
            f.buffers.batch.x);
}

// batch.x = the mix of a layer, from vectors.projected
void attend(State& s, TokenCount cached, int layer, int tokens) {
  const ForwardContext f = s.forward();
  if (s.on_host().cache(layer))
    attend_on_host(f, *s.host, cached, layer, tokens);
  else if (s.on_host().layer(layer))
    attend_staged(f, s.streamed.cache(), cached, layer, tokens);
  else
    attend_here(f, s.kv, layer, tokens);
}

void norm(const ForwardContext& f, const float* weight, int tokens) {
  norm_rows(f, 0, tokens, weight, {f.buffers.batch.x, ValueType::kF16, f.hidden()});
}

void experts(State& s, const BatchWay& way, TokenCount cached, int layer, int tokens) {
  const ForwardContext f = s.forward();
  const bool kept = s.on_host().computes_experts(layer);
  if (kept && !s.streamed.brings_experts(way, layer))
    s.host->compute_experts(layer, {f.hidden_row(0), cached, tokens});
  else
    queue_batch_experts(f, kept ? &s.streamed.experts() : nullptr, layer, tokens);
}

// The layer's operations on the GPU, or on the host where its share of them is.
void queue_layer(State& s, const BatchWay& way, TokenCount cached, int layer, int tokens,
                 Stages* stages) {
  const ForwardContext f = s.forward();
  const DeviceLayer& w = f.layer(layer);
  for (const FusedBlock block : w.blocks) {
    if (stages) stages->begin(activity_of(block), layer);
    switch (block) {
      case FusedBlock::kAttention:
        norm(f, w.attention_norm, tokens);
        project_qkv(f, w, tokens);
        attend(s, cached, layer, tokens);
        add_attention_output(f, w, tokens);
        break;
      case FusedBlock::kFfn:
        norm(f, w.ffn_norm, tokens);
        add_ffn(f, w, tokens);
        break;
      case FusedBlock::kExperts: experts(s, way, cached, layer, tokens); break;
    }
  }
}

// The host's layers from `first` on, up to one whose weights are copied; gives the first behind.
int layers_on_host(State& s, const BatchWay& way, TokenCount cached, int first, int tokens) {
  int end = first + 1;
  while (end < s.on_host().end_of_layers(first) && !s.streamed.is_brought(way, end)) ++end;
  s.host->compute_layers(first, end, {s.buffers.vectors.hidden, cached, tokens});
  return end;
}

}  // namespace

void queue_batch(State& s, TokenCount cached, std::span<const std::int32_t> ids, Stages* stages) {
  const int tokens = int(ids.size());
  const ForwardContext f = s.forward();
  const auto begin = [&](ActivityKind kind, int layer) {
    if (stages) stages->begin(kind, layer);
  };
  const BatchWay way = s.streamed.way_of_batch(cached, tokens);
  begin(ActivityKind::kEmbedding, -1);
  s.streamed.begin(way, cached, tokens);
  s.kv.begin_batch(stages);
  queue_rope_angles(f, tokens);
  if (s.on_host().embedding())
    s.host->embed(cached, ids, f.hidden_row(0));
  else
    gather_rows(f.model.gpu.embedding, f.buffers.vectors.ids, tokens, f.hidden_row(0), f.stream);
  for (int layer = 0; layer < f.spec().layers;) {
    s.stop.leave_if_asked();
    const bool brought = s.streamed.is_brought(way, layer);
    if (s.on_host().layer(layer) && !brought) {
      begin(ActivityKind::kHandoff, layer);
      layer = layers_on_host(s, way, cached, layer, tokens);
      continue;
    }
    if (brought || tokens > kUnpaced) s.pace.begin_layer(f.stream);
    if (brought) {
      begin(ActivityKind::kFetchWeights, layer);
      s.streamed.bring_layer(cached, layer);
    }
    queue_layer(s, way, cached, layer++, tokens, stages);
  }
  advance(f.stream, f.buffers.token.position, tokens);
  s.streamed.end(way);
}

}  // namespace rigcast::engine::cuda
