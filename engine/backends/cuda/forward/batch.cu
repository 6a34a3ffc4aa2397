#include "engine/backends/cuda/forward/batch.cuh"

#include <numeric>
#include <vector>

#include "core/base/error.hpp"
#include "engine/backends/cuda/forward/batch_experts.cuh"
#include "engine/backends/cuda/forward/batch_products.cuh"
#include "engine/backends/cuda/forward/decode.cuh"
#include "engine/kernels/cuda/activations/elementwise.cuh"
#include "engine/kernels/cuda/activations/tile_order.hpp"
#include "engine/kernels/cuda/attention/prefill_attention.cuh"
#include "engine/kernels/cuda/kv/rope_and_store.cuh"

namespace rigcast::engine::cuda {
namespace {

// Batches of up to this many tokens are queued without throttling: they take a fraction of a second
// even after the longest context, and events between their kernels would keep these from
// overlapping.
constexpr int kMaxUnthrottledTokens = 512;

// batch.x = the attention output of a layer for vectors.projected, whose keys and values are stored
// in `cache`; true: tiled.
bool attend_batch(const ForwardContext& f, const Cache& cache, TokenCount cached, int layer,
                  int tokens) {
  if (const DeviceLayer& w = f.layer(layer); w.latent) {
    attend_latent_batch(f.stream, w, {cache, 0, {f.buffers.token.position}}, 0, tokens,
                        latent_batch(f));
    make_latent_values(f.stream, w, tokens, latent_batch(f));
    return false;
  }
  const bool tiled = takes_tiled_attention(f, f.layer(layer), tokens);
  attend_causally(f.stream, prompt_attention(f, layer, {0, tokens, cached}), cache, 0,
                  f.buffers.token.position,
                  {f.buffers.batch.x, 0, tiled ? tiled_tokens(tokens) : 0});
  return tiled;
}

void place_tokens(const ForwardContext& f, const Cache& cache, int layer, int tokens) {
  if (const DeviceLayer& w = f.layer(layer); w.latent)
    return place_latent_batch(f.stream, w, latent_inputs(f, layer, tokens),
                              {cache, 0, {f.buffers.token.position}}, tokens, latent_batch(f));
  norm_wide_heads(f, layer, tokens);
  rope_and_store(f.stream, new_token_inputs(f, layer), cache, 0, tokens, {f.buffers.token.position},
                 f.buffers.vectors.queries);
}

// Attention over the GPU's cache.
bool attend_on_gpu(const ForwardContext& f, KvState& kv, TokenCount cached, int layer, int tokens) {
  const int source = cached_layer(f.layer(layer).rule, layer);
  const int kept = kv.cache().layer(source);
  const Cache cache = kv.cache().view(source);
  place_tokens(f, cache, layer, tokens);
  kv.await(kept);
  const bool tiled = attend_batch(f, cache, cached, layer, tokens);
  kv.done(kept);
  return tiled;
}

// Attention over the cache of an offloaded layer, which was copied from the host's cache and is
// copied back to it.
bool attend_staged(const ForwardContext& f, StagedCache& cache, TokenCount cached, int layer,
                   int tokens) {
  place_tokens(f, cache.view(layer), layer, tokens);
  const bool tiled = attend_batch(f, cache.view(layer), cached, layer, tokens);
  cache.store(layer, cached, tokens);
  return tiled;
}

// batch.x = the attention output of a layer, from vectors.projected; true: tiled
bool attend(State& s, TokenCount cached, int layer, int tokens) {
  const ForwardContext f = s.forward();
  bool tiled = false;
  if (s.on_host().cache(layer))
    attend_on_host(f, *s.host, layer, cached, tokens);
  else if (s.on_host().layer(layer))
    tiled = attend_staged(f, s.streamed.cache(), cached, layer, tokens);
  else
    tiled = attend_on_gpu(f, s.kv, cached, layer, tokens);
  if (f.layer(layer).attention_gate)
    multiply_by_gates(f.stream, gated_rows(f, f.layer(layer)), tokens, f.buffers.batch.x);
  return tiled;
}

// hidden += a recurrent layer's mixer of the first rows
void mixer(State& s, int layer, int tokens) {
  const ForwardContext f = s.forward();
  const DeviceLayer& w = f.layer(layer);
  project_mixer(f, w, tokens);
  mix_together(f.stream, w, mixer_inputs(f, s.states, layer),
               {tokens, f.buffers.token.position, f.buffers.token.state},
               {{}, nullptr, f.buffers.batch.x});
  add_mixer_output(f, w, tokens);
}

void experts(State& s, const PrefillOffload& offload, TokenCount cached, int layer, int tokens) {
  const ForwardContext f = s.forward();
  const bool kept = s.on_host().computes_experts(layer);
  if (kept && !s.streamed.streams_in_experts(offload, layer))
    compute_experts_on_host(f, *s.host, layer, {f.hidden_row(0), cached, tokens});
  else
    queue_batch_experts(f, kept ? &s.streamed.experts() : nullptr, layer, tokens);
}

// Leaves out all but the last `wanted` of `tokens` rows.
void keep_last(const ForwardContext& f, int tokens, int wanted) {
  std::vector<int> rows(std::size_t(wanted), 0);
  std::iota(rows.begin(), rows.end(), tokens - wanted);
  keep_rows(f, rows);
}

// Queues the layer's operations, on the GPU or on the host, as placed; in the last layer, after its
// attention, for the last `wanted` tokens alone. Returns the number of rows of vectors.hidden that
// are kept.
int queue_layer(State& s, const PrefillOffload& offload, TokenCount cached, int layer, int tokens,
                int wanted, StageListener* stages) {
  const ForwardContext f = s.forward();
  const DeviceLayer& w = f.layer(layer);
  const bool is_last = layer + 1 == f.spec().layers;
  for (const FusedBlock block : w.blocks) {
    if (is_last && tokens > wanted && rows_are_apart(w, block)) {
      keep_last(f, tokens, wanted);
      tokens = wanted;
    }
    if (tokens == 0) break;
    if (stages) stages->begin(activity_of(block), layer);
    switch (block) {
      case FusedBlock::kLayerInput: add_layer_input(f, w, layer, tokens); break;
      case FusedBlock::kAttention:
        project_qkv(f, w, tokens);
        add_attention_output(f, w, tokens, attend(s, cached, layer, tokens));
        break;
      case FusedBlock::kFfn: queue_batch_ffn(f, w, tokens); break;
      case FusedBlock::kExperts: experts(s, offload, cached, layer, tokens); break;
      case FusedBlock::kDeltaNet:
      case FusedBlock::kMamba:
      case FusedBlock::kShortConvolution: mixer(s, layer, tokens); break;
    }
  }
  return tokens;
}

// Runs the host's layers from `first` on, up to a layer whose weights are streamed to the GPU.
// Returns the first layer behind them.
int run_layers_on_host(State& s, const PrefillOffload& offload, TokenCount cached, int first,
                       int tokens) {
  int end = first + 1;
  while (end < s.on_host().end_of_layers(first) && !s.streamed.is_streamed_in(offload, end)) ++end;
  s.host->compute_layers(first, end, {s.buffers.vectors.hidden, cached, tokens});
  return end;
}

}  // namespace

// One row, in any layer, takes the kernels of a token, which read weights of any format once.
void queue_batch_ffn(const ForwardContext& f, const DeviceLayer& w, int rows) {
  rows == 1 && !w.parallel_ffn ? queue_ffn(f, w) : add_ffn(f, w, rows);
}

void attend_on_host(const ForwardContext& f, HostOffload& host, int layer, const RowOwners& of,
                    int tokens) {
  float* const projected = f.buffers.vectors.projected;
  const DeviceLayer& w = f.layer(layer);
  if (w.latent)
    write_latent_messages(f.stream, w, latent_inputs(f, layer, tokens), tokens, latent_batch(f),
                          f.buffers.vectors.normed, projected);
  host.attend(layer, {projected, of, tokens});
  if (w.latent) return take_latent_messages(f.stream, w, tokens, latent_batch(f), projected);
  to_fp16(f.stream, projected, std::int64_t(tokens) * q_width(f.layer(layer).attention),
          f.buffers.batch.x);
}

void queue_batch(State& s, TokenCount cached, std::span<const std::int32_t> ids, int wanted,
                 StageListener* stages) {
  const int tokens = int(ids.size());
  const ForwardContext f = s.forward();
  const auto begin = [&](ActivityKind kind, int layer) {
    if (stages) stages->begin(kind, layer);
  };
  const PrefillOffload offload = s.streamed.choose_prefill_offload(cached, tokens);
  begin(ActivityKind::kEmbedding, -1);
  s.streamed.begin(offload, cached, tokens);
  s.kv.begin_batch(stages);
  queue_rope_angles(f, tokens, {f.buffers.token.position});
  if (s.on_host().embedding())
    s.host->embed(cached, ids, f.hidden_row(0));
  else
    embed(f, f.buffers.vectors.ids, tokens);
  make_layer_inputs(f, f.buffers.vectors.ids, tokens);
  int kept = tokens;
  for (int layer = 0; layer < f.spec().layers;) {
    s.stop.throw_if_requested();
    const bool streamed_in = s.streamed.is_streamed_in(offload, layer);
    if (s.on_host().layer(layer) && !streamed_in) {
      begin(ActivityKind::kHandoff, layer);
      layer = run_layers_on_host(s, offload, cached, layer, tokens);
      continue;
    }
    if (streamed_in || tokens > kMaxUnthrottledTokens) s.throttle.begin_layer(f.stream);
    if (streamed_in) {
      begin(ActivityKind::kFetchWeights, layer);
      s.streamed.stream_in_layer(cached, layer);
    }
    kept = queue_layer(s, offload, cached, layer++, tokens, wanted, stages);
  }
  if (kept > wanted) keep_last(f, tokens, wanted);
  advance(f.stream, f.buffers.token.position, tokens);
  s.streamed.end(offload);
}

}  // namespace rigcast::engine::cuda
