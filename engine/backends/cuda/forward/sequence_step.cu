#include "engine/backends/cuda/forward/sequence_step.cuh"

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include "core/base/error.hpp"
#include "engine/backends/cuda/forward/batch.cuh"
#include "engine/backends/cuda/forward/batch_experts.cuh"
#include "engine/backends/cuda/forward/batch_products.cuh"
#include "engine/backends/cuda/forward/decode.cuh"
#include "engine/cuda/barrier_kernel.cuh"
#include "engine/kernels/cuda/activations/tile_order.hpp"
#include "engine/kernels/cuda/attention/prefill_attention.cuh"
#include "engine/kernels/cuda/attention/step_attention.cuh"
#include "engine/kernels/cuda/batch/small_batch_gemm.cuh"
#include "engine/kernels/cuda/kv/rope_and_store.cuh"
#include "engine/kernels/cuda/weights/dequantize.cuh"

namespace rigcast::engine::cuda {
namespace {

// A layer's part of the cache, as its kernels see it: as layer 0.
Cache cache_of(const KvState& kv, const SequenceRows& step, int layer) {
  Cache cache = kv.cache().layout(layer);
  cache.blocks = kv.cache().has_own_blocks(layer) ? step.window_tables : step.tables;
  cache.list_stride = step.table_stride;
  return cache;
}

// batch.x = the attention output of single rows, as many at a time as there is room for partials;
// `tiled`: 0, or the tokens for which it is tiled.
void attend_singles(const ForwardContext& f, const SequenceRows& step, const Cache& cache,
                    int layer, int tiled) {
  const AttentionShape& a = f.layer(layer).attention;
  const std::int64_t width = q_width(a);
  for (int first = 0; first < step.singles; first += step.partial_rows) {
    const int rows = std::min(step.partial_rows, step.singles - first);
    const StepRows at{step.at.position + first, step.at.sequence + first};
    const HalfRows out{f.buffers.batch.x, first, tiled};
    const StepAttention attention{f.buffers.vectors.queries + first * width,
                                  rows,
                                  a.heads,
                                  window_of(a),
                                  soft_cap(f, layer),
                                  f.layer(layer).sinks};
    attend_rows(f.stream, attention, cache, 0, step.splits, at, step.partials, out);
    if (step.splits.count > 1)
      merge_rows(f.stream, step.partials, rows, step.splits.count, a.heads, int(a.head_dim), out,
                 f.layer(layer).sinks);
  }
}

// The same of latent attention, to where its rows are kept.
void attend_latent_singles(const ForwardContext& f, const SequenceRows& step,
                           const LatentCache& cache, int layer) {
  const DeviceLayer& w = f.layer(layer);
  const int rank = int(w.latent.rank), heads = w.attention.heads;
  for (int first = 0; first < step.singles; first += step.partial_rows) {
    const int rows = std::min(step.partial_rows, step.singles - first);
    attend_latent(f.stream, {f.buffers.vectors.queries, rows, heads, rank, first}, cache.cache,
                  cache.layer, step.splits.count, step.splits.wanted, cache.at, step.partials);
    merge_rows(f.stream, step.partials, rows, step.splits.count, heads, rank,
               {latent_batch(f).attended, first});
  }
}

// batch.x = the attention output of all rows of a layer with latent attention.
void attend_to_latent_rows(const ForwardContext& f, const SequenceRows& step,
                           const LatentCache& cache, int layer) {
  const DeviceLayer& w = f.layer(layer);
  const LatentBatch batch = latent_batch(f);
  place_latent_batch(f.stream, w, latent_inputs(f, layer, step.rows), cache, step.rows, batch);
  attend_latent_singles(f, step, cache, layer);
  attend_latent_batch(f.stream, w, cache, step.singles, step.rows - step.singles, batch);
  make_latent_values(f.stream, w, step.rows, batch);
}

// batch.x = the attention output of a chunk's rows; `tiled` as of attend_singles().
void attend_chunk(const ForwardContext& f, const SequenceRows& step, const PromptChunk& chunk,
                  const Cache& cache, int layer, int tiled) {
  attend_causally(f.stream, prompt_attention(f, layer, {chunk.first_row, chunk.rows, chunk.cached}),
                  cache.of_sequence(chunk.sequence), 0, step.at.position + chunk.first_row,
                  {f.buffers.batch.x, chunk.first_row, tiled});
}

// batch.x = the attention output of all rows; true: tiled. Kernels read keys and values before the
// previous kernel has ended: where those are copied, all of them start behind a barrier.
bool attend_on_gpu(const ForwardContext& f, KvState& kv, const SequenceRows& step, int layer) {
  const int source = cached_layer(f.layer(layer).rule, layer);
  const int kept = kv.cache().layer(source);
  const Cache cache = cache_of(kv, step, source);
  if (kv.await(kept)) launch_barrier_kernel(f.stream);
  if (f.layer(layer).latent) {
    attend_to_latent_rows(f, step, {cache, 0, step.at}, layer);
    kv.done(kept);
    return false;
  }
  norm_wide_heads(f, layer, step.rows);
  rope_and_store(f.stream, new_token_inputs(f, layer), cache, 0, step.rows, step.at,
                 f.buffers.vectors.queries);
  const int tiled =
      takes_tiled_attention(f, f.layer(layer), step.rows) ? tiled_tokens(step.rows) : 0;
  attend_singles(f, step, cache, layer, tiled);
  for (const PromptChunk& chunk : step.chunks) attend_chunk(f, step, chunk, cache, layer, tiled);
  kv.done(kept);
  return tiled > 0;
}

void queue_attention(State& s, const SequenceRows& step, int layer) {
  const ForwardContext f = s.forward();
  const DeviceLayer& w = f.layer(layer);
  project_qkv(f, w, step.rows);
  bool tiled = false;
  if (s.on_host().cache(layer))
    attend_on_host(f, *s.host, layer, step.owners, step.rows);
  else
    tiled = attend_on_gpu(f, s.kv, step, layer);
  if (w.attention_gate) multiply_by_gates(f.stream, gated_rows(f, w), step.rows, f.buffers.batch.x);
  add_attention_output(f, w, step.rows, tiled);
}

// Single rows at once, then each chunk.
void queue_mixer(State& s, const SequenceRows& step, int layer) {
  const ForwardContext f = s.forward();
  const DeviceLayer& w = f.layer(layer);
  project_mixer(f, w, step.rows);
  mix_apart(f.stream, w, mixer_inputs(f, s.states, layer),
            {step.singles, step.at.position, step.states}, {{}, nullptr, f.buffers.batch.x});
  for (const PromptChunk& chunk : step.chunks) {
    const int first = chunk.first_row;
    mix_together(f.stream, w, mixer_inputs(f, s.states, layer, first),
                 {chunk.rows, step.at.position + first, step.states + first},
                 {{}, nullptr, f.buffers.batch.x + first * w.mixer_out.columns});
  }
  add_mixer_output(f, w, step.rows);
}

void queue_experts_of(State& s, const RowOwners& owners, int layer, int rows) {
  const ForwardContext f = s.forward();
  if (s.on_host().computes_experts(layer))
    compute_experts_on_host(f, *s.host, layer, {f.hidden_row(0), owners, rows});
  else
    queue_batch_experts(f, nullptr, layer, rows);
}

// The rows of which logits may be wanted: the single ones, and the last one of each chunk that
// wants them. HostBatch::place() and place_samplers() count them in the same order.
std::vector<int> wanted_rows(const SequenceRows& step) {
  std::vector<int> rows(std::size_t(step.singles), 0);
  std::iota(rows.begin(), rows.end(), 0);
  for (const PromptChunk& chunk : step.chunks)
    if (chunk.wants_logits) rows.push_back(chunk.first_row + chunk.rows - 1);
  return rows;
}

// The rows of a step that are the first ones of vectors.hidden: all, or wanted_rows() alone.
struct KeptRows {
  int count = 0;
  bool wanted_alone = false;
  std::vector<StepSequence> owners;  // of rows that were moved, for what needs no cache
};
KeptRows keep_wanted(const ForwardContext& f, const SequenceRows& step) {
  const std::vector<int> wanted = wanted_rows(step);
  keep_rows(f, wanted);
  KeptRows kept{int(wanted.size()), true, {}};
  if (step.owners.empty() || step.chunks.empty()) return kept;
  for (int row = 0; row < kept.count; ++row)
    kept.owners.push_back({step.owners.front().cached, row, 1});
  return kept;
}

// Queues the layer; in the last one, after its attention, for wanted_rows() alone.
void queue_layer(State& s, const SequenceRows& step, int layer, KeptRows& rows,
                 StageListener* stages) {
  const ForwardContext f = s.forward();
  const DeviceLayer& w = f.layer(layer);
  const bool is_last = layer + 1 == f.spec().layers;
  for (const FusedBlock block : w.blocks) {
    if (is_last && !rows.wanted_alone && rows_are_apart(w, block)) rows = keep_wanted(f, step);
    if (rows.count == 0) break;
    if (stages) stages->begin(activity_of(block), layer);
    switch (block) {
      case FusedBlock::kLayerInput: add_layer_input(f, w, layer, rows.count); break;
      case FusedBlock::kAttention: queue_attention(s, step, layer); break;
      case FusedBlock::kFfn: queue_batch_ffn(f, w, rows.count); break;
      case FusedBlock::kExperts:
        queue_experts_of(s, rows.owners.empty() ? step.owners : rows.owners, layer, rows.count);
        break;
      case FusedBlock::kDeltaNet:
      case FusedBlock::kMamba:
      case FusedBlock::kShortConvolution: queue_mixer(s, step, layer); break;
    }
  }
}

// True if the logits of several rows are one product. Activations are F16 in it: for weights in
// BF16, which need as much range, and in F32, logits are computed row by row.
bool multiplies_head(const ForwardContext& f) {
  const QuantFormat format = f.model.gpu.head.format;
  return format == QuantFormat::kF16 ||
         (has_small_batch_gemm() && supports_small_batch_gemm(format));
}

// Logits of one row of hidden states by the token's kernels, which take weights of any format.
void row_head(const ForwardContext& f, int row, float* logits) {
  queue_head(f, row);
  RIGCAST_CUDA_CALL(cudaMemcpyAsync(logits, f.buffers.token.logits,
                                    std::size_t(f.spec().vocabulary) * sizeof(float),
                                    cudaMemcpyDeviceToDevice, f.stream.get()));
}

}  // namespace

int queue_sequences(State& s, const SequenceRows& step, StageListener* stages) {
  const ForwardContext f = s.forward();
  const HostPlacement& on_host = s.on_host();
  const auto begin = [&](ActivityKind kind, int layer) {
    if (stages) stages->begin(kind, layer);
  };
  begin(ActivityKind::kEmbedding, -1);
  s.streamed.begin({}, 0, step.rows);
  s.kv.begin_sequences(stages);
  queue_rope_angles(f, step.rows, step.at);
  if (on_host.embedding())
    s.host->embed(step.owners, step.ids_on_host, f.hidden_row(0));
  else
    embed(f, step.ids, step.rows);
  make_layer_inputs(f, step.ids, step.rows);
  KeptRows rows{step.rows, false, {}};
  for (int layer = 0; layer < f.spec().layers;) {
    if (on_host.any()) s.stop.throw_if_requested();  // steps of the GPU alone are short
    if (on_host.layer(layer)) {
      begin(ActivityKind::kHandoff, layer);
      const int first = std::exchange(layer, on_host.end_of_layers(layer));
      s.host->compute_layers(first, layer, {f.hidden_row(0), step.owners, step.rows});
      continue;
    }
    if (on_host.streamed(layer)) {
      begin(ActivityKind::kFetchWeights, layer);
      s.streamed.stream_in_layer(0, layer);
    }
    queue_layer(s, step, layer++, rows, stages);
  }
  if (!rows.wanted_alone) rows = keep_wanted(f, step);
  s.streamed.end({});
  s.kv.end_sequences();
  return rows.count;
}

void queue_heads(const ForwardContext& f, int rows, float* logits) {
  if (rows == 0) return;
  if (!multiplies_head(f)) {
    for (int row = 0; row < rows; ++row)
      row_head(f, row, logits + std::int64_t(row) * f.spec().vocabulary);
    return;
  }
  norm_rows(f, 0, rows, final_norm(f), {f.buffers.batch.x, ValueType::kF16, f.hidden()});
  multiply_head(f, rows, logits);
}

}  // namespace rigcast::engine::cuda
