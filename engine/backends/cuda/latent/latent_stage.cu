#include "engine/backends/cuda/latent/latent_stage.cuh"

#include "engine/kernels/cuda/activations/elementwise.cuh"
#include "engine/kernels/cuda/activations/quantize_activations.cuh"
#include "engine/kernels/cuda/attention/merge_partials.cuh"
#include "engine/kernels/cuda/kv/rope_and_store.cuh"
#include "engine/kernels/cuda/latent/head_products.cuh"
#include "engine/kernels/cuda/weights/dequantize.cuh"

namespace rigcast::engine::cuda {
namespace {

bool needs_floats(const DeviceMatrix& m) {
  return m.format == QuantFormat::kF32 || m.format == QuantFormat::kF16 ||
         m.format == QuantFormat::kBF16;
}

// Of memory in both forms, the one that the matrix multiplies.
Outputs form_for(const DeviceMatrix& m, const Outputs& both) {
  return needs_floats(m) ? Outputs{{}, both.floats} : Outputs{both.quantized, nullptr};
}
Inputs inputs_of(const Outputs& both) { return {both.quantized, both.floats}; }

// The rows of all heads as F16: in place, or dequantized to `to`.
const __half* in_fp16(const Stream& stream, const DeviceMatrix& m, __half* to) {
  if (m.format == QuantFormat::kF16) return reinterpret_cast<const __half*>(m.soa);
  dequantize(m, {0, m.rows}, FloatType::kF16, to, stream);
  return to;
}

LatentAttention attention_of(const DeviceLayer& w, const __half* queries, int first, int rows) {
  return {queries, rows, w.attention.heads, int(w.latent.rank), first};
}

// token.queries: the plain parts, brought to the cache's rows.
void absorb(const Stream& stream, const DeviceLayer& w, const LatentToken& token) {
  HeadProducts to;
  to.halves = token.queries;
  to.stride = int(w.latent.row());
  multiply_heads({w.k_b, int(w.latent.rank)}, inputs_of(token.between), to, stream, Start::kEarly);
}
void absorb_batch(const Stream& stream, const DeviceLayer& w, int tokens,
                  const LatentBatch& batch) {
  const LatentShape& latent = w.latent;
  batch.matmul.multiply_heads({w.attention.heads, int(latent.rank), int(latent.plain), tokens,
                               int(latent.plain), int(latent.row())},
                              in_fp16(stream, w.k_b, batch.weights), batch.x, batch.queries);
}

// batch.x = each head's values of what attention gave, rows of `width` for each head.
void expand_batch(const Stream& stream, const DeviceLayer& w, int tokens, const LatentBatch& batch,
                  const __half* attended, int width) {
  const LatentShape& latent = w.latent;
  batch.matmul.multiply_heads(
      {w.attention.heads, int(latent.value), int(latent.rank), tokens, width, int(latent.value)},
      in_fp16(stream, w.v_b, batch.weights), attended, batch.x);
}

}  // namespace

LatentPlaces latent_places(const DeviceLayer& w, float* projected, int tokens) {
  LatentPlaces p;
  const DeviceMatrix& first = first_of_queries(w);
  p.first = projected;
  p.rows = projected + first.rows;
  p.width = int(first.rows + w.kv_a.rows);
  p.queries = w.q_a ? projected + std::int64_t(tokens) * p.width : p.first;
  p.query_width = w.q_a ? int(w.q_b.rows) : p.width;
  return p;
}

LatentRows latent_rows(const DeviceLayer& w, const Hyperparameters& hyper,
                       const LatentPlaces& places, const RopeAngle* rope_cos_sin) {
  const LatentShape& latent = w.latent;
  LatentRows r;
  r.widths = {w.attention.heads, int(latent.rank), int(latent.plain), int(latent.turned)};
  r.queries = places.queries;
  r.query_stride = places.query_width;
  r.rows = places.rows;
  r.row_stride = places.width;
  r.norm = w.kv_a_norm;
  r.norm_eps = hyper.norm_eps;
  r.pairs = hyper.rope_pairs;
  r.rope_cos_sin = rope_cos_sin;
  NewTokenInputs scale;
  scale.score_scale = w.rule.score_scale;
  r.query_scale = query_scale(scale, int(latent.row()));
  if (w.scales_by_position)
    r.temperature = {hyper.temperature, hyper.temperature_tokens, hyper.temperature_offset};
  return r;
}

void attend_latent_token(const Stream& stream, const DeviceLayer& w, const LatentRows& rows,
                         const LatentCache& cache, int splits, const LatentToken& token) {
  const LatentShape& latent = w.latent;
  const int heads = w.attention.heads, rank = int(latent.rank);
  place_latent_rows(stream, rows, cache.cache, cache.layer, 1, cache.at,
                    {token.queries, nullptr, form_for(w.k_b, token.between)});
  absorb(stream, w, token);
  attend_latent(stream, attention_of(w, token.queries, 0, 1), cache.cache, cache.layer, splits, 0,
                cache.at, token.partials);
  merge_partials(stream, token.partials, splits, heads, rank, form_for(w.v_b, token.between));
  multiply_heads({w.v_b, int(latent.value)}, inputs_of(token.between),
                 {form_for(w.output, token.values)}, stream, Start::kEarly);
}

void place_latent_batch(const Stream& stream, const DeviceLayer& w, const LatentRows& rows,
                        const LatentCache& cache, int tokens, const LatentBatch& batch) {
  place_latent_rows(stream, rows, cache.cache, cache.layer, tokens, cache.at,
                    {batch.queries, batch.x, {}});
  absorb_batch(stream, w, tokens, batch);
}

void attend_latent_batch(const Stream& stream, const DeviceLayer& w, const LatentCache& cache,
                         int first, int count, const LatentBatch& batch) {
  attend_latent_whole(stream, attention_of(w, batch.queries, first, count), cache.cache,
                      cache.layer, cache.at, batch.attended);
}

void make_latent_values(const Stream& stream, const DeviceLayer& w, int tokens,
                        const LatentBatch& batch) {
  expand_batch(stream, w, tokens, batch, batch.attended, int(w.latent.rank));
}

void write_latent_token(const Stream& stream, const DeviceLayer& w, const LatentRows& rows,
                        const LatentToken& token, float* row, float* message) {
  place_latent_rows(stream, rows, {}, 0, 1, {},
                    {token.queries, nullptr, form_for(w.k_b, token.between), row});
  absorb(stream, w, token);
  write_latent_message(stream, rows.widths, 1, token.queries, row, message);
}

void take_latent_token(const Stream& stream, const DeviceLayer& w, const LatentToken& token) {
  const int row = int(w.latent.row());
  if (!needs_floats(w.v_b))
    quantize_tokens({token.between.floats, row, w.attention.heads}, token.between.quantized, stream,
                    Start::kEarly);
  multiply_heads({w.v_b, int(w.latent.value), row}, inputs_of(token.between),
                 {form_for(w.output, token.values)}, stream, Start::kEarly);
}

void write_latent_messages(const Stream& stream, const DeviceLayer& w, const LatentRows& rows,
                           int tokens, const LatentBatch& batch, float* row, float* messages) {
  place_latent_rows(stream, rows, {}, 0, tokens, {}, {batch.queries, batch.x, {}, row});
  absorb_batch(stream, w, tokens, batch);
  write_latent_message(stream, rows.widths, tokens, batch.queries, row, messages);
}

void take_latent_messages(const Stream& stream, const DeviceLayer& w, int tokens,
                          const LatentBatch& batch, const float* attended) {
  const int row = int(w.latent.row());
  to_fp16(stream, attended, std::int64_t(tokens) * w.attention.heads * row, batch.queries);
  expand_batch(stream, w, tokens, batch, batch.queries, row);
}

}  // namespace rigcast::engine::cuda
