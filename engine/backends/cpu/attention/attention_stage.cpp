#include "engine/backends/cpu/attention/attention_stage.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "engine/kernels/cpu/elementwise.hpp"
#include "engine/kernels/cpu/recurrent.hpp"
#include "engine/model/model_bytes.hpp"
#include "engine/synth/counter_rng.hpp"

namespace rigcast::engine {
namespace {

void add_bias(std::span<float> to, const std::vector<float>& bias) {
  if (!bias.empty()) cpu::add_scaled(to, bias.data(), 1.0f);
}

KvCache cache_for(const ModelSpec& spec, const CpuOptions& o) {
  return {spec,
          o.kv_types,
          o.kv_block,
          o.cached_layers ? *o.cached_layers : all_layers(spec),
          o.kv_memory ? o.kv_memory : o.ram.tracked("KV cache", make_large_pages),
          1,
          o.window_blocks.value_or(0)};
}

std::vector<Rope> ropes_of(const Model& model) {
  std::vector<Rope> ropes;
  for (RopeTable& table : rope_tables(model.hyper, model.rope_factors))
    ropes.emplace_back(model.hyper.rope_pairs, std::move(table));
  return ropes;
}

cpu::Scores scores_of(const Layer& layer) {
  return {layer.score_scale(), layer.rule.softcap, layer.sinks};
}

std::vector<cpu::Scores> scores_of(const Model& model) {
  std::vector<cpu::Scores> scores;
  for (const Layer& layer : model.layers) scores.push_back(scores_of(layer));
  return scores;
}

}  // namespace

AttentionStage::AttentionStage(CpuStep& step, const CpuOptions& options)
    : step_(step),
      cache_(cache_for(step.model->spec, options)),
      ropes_(ropes_of(*step.model)),
      one_(step.model->spec, options.threads, scores_of(*step.model)),
      batch_(options.threads),
      latent_(step),
      angles_(ropes_.size()) {}

void AttentionStage::begin() {
  for (std::size_t i = 0; i < ropes_.size(); ++i)
    angles_[i].resize(std::size_t(step_.tokens) * ropes_[i].pairs() * 2);
  batch_.begin(step_.sequences);
}

void AttentionStage::compute_angles(Worker& worker) {
  worker.parallel_for(step_.tokens, 8, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t t = begin; t < end; ++t)
      for (std::size_t i = 0; i < ropes_.size(); ++i) {
        const std::size_t angles = ropes_[i].pairs() * 2;
        ropes_[i].angles(step_.sequence_of(t).position(t),
                         {angles_[i].data() + std::size_t(t) * angles, angles});
      }
  });
}

// Normalizes the heads of a row's query or key, each or all of them at once, and applies RoPE.
void AttentionStage::norm_and_rotate(int layer, std::int64_t row, std::span<float> heads,
                                     const std::vector<float>& norm) const {
  const Layer& w = step_.layer(layer);
  const std::size_t dim = std::size_t(w.attention.head_dim);
  const float eps = step_.model->hyper.norm_eps;
  const bool wide = norm.size() > dim, means = step_.model->hyper.layer_norm;
  if (wide && !means) cpu::rms_norm(heads, norm, eps, heads.data());
  for (std::size_t h = 0; wide && means && h < heads.size(); h += dim)
    cpu::layer_norm(heads.subspan(h, dim), std::span(norm).subspan(h, dim), {}, eps, &heads[h]);
  const bool each = !wide && !norm.empty();
  const std::vector<float> ones(w.rule.plain_norms ? dim : 0, 1.0f);
  if (!each && w.rule.rope < 0) return;
  const Rope* const rope = w.rule.rope < 0 ? nullptr : &ropes_[std::size_t(w.rule.rope)];
  std::span<const float> angles;
  if (rope)
    angles = std::span(angles_[std::size_t(w.rule.rope)])
                 .subspan(std::size_t(row) * rope->pairs() * 2, rope->pairs() * 2);
  for (std::size_t h = 0; h < heads.size(); h += dim) {
    const std::span<float> head = heads.subspan(h, dim);
    if (each && !w.rule.norms_rotated) cpu::rms_norm(head, norm, eps, head.data());
    if (rope) rope->rotate(angles, head.data());
    if (each && w.rule.norms_rotated) cpu::rms_norm(head, norm, eps, head.data());
    if (w.rule.plain_norms) cpu::rms_norm(head, ones, eps, head.data());
  }
}

// Moves a row's queries and gates, which heads have side by side, to where each are.
void AttentionStage::split_gate(int layer, std::int64_t row) {
  const std::int64_t width = shape(layer).q_width(), dim = shape(layer).head_dim;
  const float* from = q_and_gate_.data() + row * 2 * width;
  for (std::int64_t at = row * width; at < (row + 1) * width; at += dim, from += 2 * dim) {
    std::copy_n(from, dim, q_.data() + at);
    std::copy_n(from + dim, dim, gate_.data() + at);
  }
}

// attended *= sigmoid(gate), for elements from `first` on.
void AttentionStage::apply_gate(std::int64_t first, std::span<float> attended) const {
  cpu::sigmoid_multiply(attended, gate_.data() + first);
}

void AttentionStage::scale_query(const Layer& w, std::int64_t row, std::span<float> q) const {
  const Hyperparameters& h = step_.model->hyper;
  if (h.temperature == 0 || !uses(w.ops, OpKind::kScaleByPosition)) return;
  const float scale = temperature_at(h, step_.sequence_of(row).position(row));
  for (float& x : q) x *= scale;
}

// Values without a matrix are the keys' products; heads of some models' are normed.
void AttentionStage::place_value(const Layer& w, const float* key, std::span<float> value) const {
  if (!w.v) std::copy_n(key, value.size(), value.begin());
  if (!w.norms_values()) return;
  const std::size_t dim = std::size_t(w.attention.head_dim);
  const std::vector<float> ones(dim, 1.0f);
  for (std::size_t h = 0; h < value.size(); h += dim)
    cpu::rms_norm(value.subspan(h, dim), ones, step_.model->hyper.norm_eps, &value[h]);
}

// Adds biases, normalizes heads, applies RoPE and stores keys and values, for one token of the
// step.
void AttentionStage::place_queries(int layer, std::int64_t row) {
  const Layer& w = step_.layer(layer);
  const std::size_t q_width = std::size_t(w.attention.q_width()),
                    kv_width = std::size_t(w.attention.kv_width());
  float* q = q_.data() + std::size_t(row) * q_width;
  float* k = k_.data() + std::size_t(row) * kv_width;
  float* v = v_.data() + std::size_t(row) * kv_width;
  add_bias({q, q_width}, w.q_bias);
  norm_and_rotate(layer, row, {q, q_width}, w.q_norm);
  scale_query(w, row, {q, q_width});
  if (w.rule.kv_layer >= 0) return;
  add_bias({k, kv_width}, w.k_bias);
  add_bias({v, kv_width}, w.v_bias);
  place_value(w, k, {v, kv_width});
  norm_and_rotate(layer, row, {k, kv_width}, w.k_norm);
  const StepSequence& sequence = step_.sequence_of(row);
  cache_.store(layer, sequence.position(row), k, v, sequence.table);
}

// The same of latent attention, whose queries' parts that turn come behind the others.
void AttentionStage::place_latent(int layer, std::int64_t row) {
  const Layer& w = step_.layer(layer);
  const LatentShape& latent = w.latent;
  float* const q = q_.data() + row * w.attention.heads * latent.row();
  latent_.each_tail(w, row, [&](int head, std::span<const float> tail) {
    std::ranges::copy(tail, q + head * latent.row() + latent.rank);
  });
  turn_and_store_latent(layer, row);
}

// Rotates the part of a query and of a row that turns, and stores the row.
void AttentionStage::turn_and_store_latent(int layer, std::int64_t row) {
  const Layer& w = step_.layer(layer);
  const auto rank = std::size_t(w.latent.rank), width = std::size_t(w.latent.row());
  const Rope& rope = ropes_[std::size_t(w.rule.rope)];
  const auto angles = std::span<const float>(angles_[std::size_t(w.rule.rope)])
                          .subspan(std::size_t(row) * rope.pairs() * 2, rope.pairs() * 2);
  const std::size_t heads = std::size_t(w.attention.heads);
  float* const q = q_.data() + std::size_t(row) * heads * width;
  for (std::size_t head = 0; head < heads; ++head) rope.rotate(angles, q + head * width + rank);
  scale_query(step_.layer(layer), row, {q, heads * width});
  float* const k = k_.data() + std::size_t(row) * width;
  cpu::rms_norm({k, rank}, w.kv_a_norm, step_.model->hyper.norm_eps, k);
  rope.rotate(angles, k + rank);
  const StepSequence& sequence = step_.sequence_of(row);
  cache_.store(layer, sequence.position(row), k, k, sequence.table);
}

// Attention over the cache, from queries, keys and values that place() completes for each row.
// There is no barrier at the end. For one token, `around` may name work that follows on finished
// heads.
template <class Place>
void AttentionStage::attend_over_cache(Worker& worker, int layer, const Place& place,
                                       AroundHeads around) {
  if (step_.tokens == 1) {
    around.before = [&, before = std::move(around.before)] {
      place(0);
      if (before) before();
    };
    return one_.run(worker, cached_kv(), kv_layer(layer), shape(layer).first_attended(step_.cached),
                    step_.cached + 1, q_.data(), attn_out_.data(), around);
  }
  worker.barrier();
  // Four neighbouring tokens at a time: their rows of the cache share cache lines.
  worker.parallel_for(step_.tokens, 4, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) place(row);
  });
  batch_.run(worker, cache_, kv_layer(layer), scores_of(step_.layer(layer)), q_.data(),
             attn_out_.data());
}

// Attention, and its result as the input of the output matrix: row by row for a batch; for one
// token, as soon as heads are finished.
void AttentionStage::attend_to_input(Worker& worker, int layer) {
  const Matrix& output = step_.layer(layer).output;
  const std::int64_t width = output.columns, dim = shape(layer).head_dim;
  const bool gated = step_.layer(layer).has_attention_gate();
  const auto place = [&](std::int64_t row) {
    if (gated) split_gate(layer, row);
    place_queries(layer, row);
  };
  if (step_.tokens == 1) {
    one_.prefetch_kv(worker, cached_kv(), kv_layer(layer),
                     shape(layer).first_attended(step_.cached), step_.cached + 1);
    return attend_over_cache(worker, layer, place,
                             {.before = [&] { step_.input.resize(width, 1, {&output}); },
                              .heads_done =
                                  [&](std::int64_t begin, std::int64_t end) {
                                    const std::span<float> done(attn_out_.data() + begin * dim,
                                                                std::size_t((end - begin) * dim));
                                    if (gated) apply_gate(begin * dim, done);
                                    step_.input.set_part(begin * dim, done);
                                  },
                              .heads = std::lcm(Input::kPart, dim) / dim});
  }
  attend_over_cache(worker, layer, place, {});
  step_.prepare(
      worker, step_.input, width, {&output}, [] {},
      [&](std::int64_t row, std::span<float> out) {
        std::copy_n(attn_out_.data() + row * width, width, out.data());
        if (gated) apply_gate(row * width, out);
      });
}

// Resizes the buffers of a step's projections, plans its attention, and counts the bytes of the
// cache that are read and written.
void AttentionStage::size(int layer) {
  const AttentionShape& shape = this->shape(layer);
  q_.resize(std::size_t(step_.tokens * shape.q_width()));
  k_.resize(std::size_t(step_.tokens * shape.kv_width()));
  v_.resize(std::size_t(step_.tokens * shape.kv_width()));
  attn_out_.resize(q_.size());
  if (step_.layer(layer).has_attention_gate()) {
    q_and_gate_.resize(2 * q_.size());
    gate_.resize(q_.size());
  }
  if (step_.tokens > 1) batch_.plan(shape);
  TokenCount seen = 0;
  for (const StepSequence& s : step_.sequences)
    seen += s.cached + s.tokens - shape.first_attended(s.cached);
  const std::int64_t token_bytes = cache_.token_bytes(layer);
  const bool stores = kv_layer(layer) == layer;
  step_.bytes += {0, double(seen * token_bytes), stores ? double(step_.tokens * token_bytes) : 0};
}

void AttentionStage::attend(Worker& worker, int layer, const float* projected) {
  const std::int64_t q_width = shape(layer).q_width(),
                     kv_width = kv_layer(layer) == layer ? shape(layer).kv_width() : 0;
  const ActivitySpan span = step_.span(worker, ActivityKind::kCacheAttention, layer);
  worker.run_once([&] { size(layer); });
  attend_over_cache(worker, layer,
                    [&](std::int64_t row) {
                      const float* const from = projected + row * (q_width + 2 * kv_width);
                      std::copy_n(from, q_width, q_.begin() + row * q_width);
                      std::copy_n(from + q_width, kv_width, k_.begin() + row * kv_width);
                      if (step_.layer(layer).latent) return turn_and_store_latent(layer, row);
                      std::copy_n(from + q_width + kv_width, kv_width, v_.begin() + row * kv_width);
                      place_queries(layer, row);
                    },
                    {});
  worker.barrier();
}

// Applies bias, head norms and RoPE to the query of the step's first token.
void AttentionStage::rope_query(int layer, float* q) {
  const Layer& w = step_.layer(layer);
  const std::size_t width = std::size_t(w.attention.q_width());
  add_bias({q, width}, w.q_bias);
  norm_and_rotate(layer, 0, {q, width}, w.q_norm);
  scale_query(w, 0, {q, width});
}

const AttentionStage::Partial& AttentionStage::attend_partially(Worker& worker, int layer,
                                                                const float* q,
                                                                const KvCache& cache,
                                                                TokenCount tokens) {
  const std::size_t width = std::size_t(shape(layer).q_width()),
                    heads = std::size_t(shape(layer).heads);
  const TokenCount from = shape(layer).first_attended(step_.cached);
  const ActivitySpan span = step_.span(worker, ActivityKind::kCacheAttention, layer);
  worker.run_once([&] {
    q_.assign(q, q + width);
    rope_query(layer, q_.data());
    partial_.o.assign(width, 0.0f);
    partial_.m.assign(heads, -std::numeric_limits<float>::infinity());
    partial_.l.assign(heads, 0.0f);
    step_.bytes.kv_read +=
        double(std::max<TokenCount>(0, tokens - from) * cache.token_bytes(layer));
  });
  if (from < tokens)
    one_.run_part(worker, cache, layer, from, tokens, q_.data(),
                  {partial_.o.data(), partial_.m.data(), partial_.l.data()});
  worker.barrier();
  return partial_;
}

void AttentionStage::prefetch_kv(Worker& worker, int layer, const KvCache& cache,
                                 TokenCount tokens) {
  one_.prefetch_kv(worker, cache, layer, shape(layer).first_attended(step_.cached), tokens);
}

void AttentionStage::compute_latent(Worker& worker, int layer, const NextMatrices& next) {
  const std::int64_t hidden = step_.width();
  const Layer& w = step_.layer(layer);
  const ActivitySpan span = step_.span(worker, ActivityKind::kAttention, layer);
  worker.run_once([&] {
    size(layer);
    step_.bytes.weights += double(attention_weight_bytes(w));
  });
  latent_.project(worker, w, q_.data(), k_.data());
  attend_over_cache(worker, layer, [&](std::int64_t row) { place_latent(layer, row); }, {});
  latent_.expand(worker, w, attn_out_.data());
  const std::int64_t width = w.output.columns;
  step_.prepare(
      worker, step_.input, width, {&w.output}, [] {},
      [&](std::int64_t row, std::span<float> out) {
        std::copy_n(latent_.values().data() + row * width, width, out.data());
      });
  worker.run_once([&] { step_.set_pending(w.attention_post_norm); });
  const Product output{&w.output, step_.input, step_.block.data(), hidden};
  multiply(worker, {&output, 1}, step_.products(worker), next);
}

void AttentionStage::compute(Worker& worker, int layer, const NextMatrices& next) {
  const std::int64_t hidden = step_.width();
  const Layer& w = step_.layer(layer);
  if (w.latent) return compute_latent(worker, layer, next);
  const std::int64_t q_width = w.q.rows, kv_width = w.k.rows;
  const Matrix &keys = w.k ? w.k : w.q, &values = w.v ? w.v : keys;
  ProductScratch& scratch = step_.products(worker);
  const ActivitySpan span = step_.span(worker, ActivityKind::kAttention, layer);
  const auto before = [&] {
    size(layer);
    step_.bytes.weights += double(attention_weight_bytes(w));
  };
  step_.prepare(worker, step_.input, hidden, {&w.q, &keys, &values}, before,
                [&](std::int64_t row, std::span<float> out) {
                  step_.normed_row(row, w.attention_norm, out, w.attention_norm_bias);
                });
  float* const q = w.has_attention_gate() ? q_and_gate_.data() : q_.data();
  const Product projections[] = {{&w.q, step_.input, q, q_width},
                                 {&w.k, step_.input, k_.data(), kv_width},
                                 {&w.v, step_.input, v_.data(), kv_width}};
  multiply(worker,
           std::span(projections)
               .first(!w.k   ? 1
                      : !w.v ? 2
                             : 3),
           scratch, step_.if_apart({&w.output}));
  attend_to_input(worker, layer);
  worker.run_once([&] { step_.set_pending(w.attention_post_norm); });
  const Product output{&w.output, step_.input, step_.block.data(), hidden};
  multiply(worker, {&output, 1}, scratch, next);
  if (w.output_bias.empty()) return;
  worker.barrier();
  worker.parallel_for_nowait(step_.tokens, 1, [&](std::int64_t row, std::int64_t) {
    add_bias({step_.block.data() + row * hidden, std::size_t(hidden)}, w.output_bias);
  });
}

void AttentionStage::fill(TokenCount first, TokenCount last, TokenCount end, BlockTable table) {
  constexpr std::uint64_t stream = stream_key(1, "cache");
  std::vector<float> k, v;
  for (TokenCount t = first; t < last; ++t)
    for (int layer = 0; layer < step_.model->spec.layers; ++layer) {
      if (!cache_.keeps(layer) || cache_.overwrites(layer, t, end)) continue;
      const std::size_t width = std::size_t(shape(layer).kv_width());
      k.resize(width);
      v.resize(width);
      std::uint64_t at = (std::uint64_t(t) * 1024 + std::uint64_t(layer)) * width;
      for (std::size_t i = 0; i < width; ++i, ++at) {
        const std::uint64_t bits = random_word(stream, at);
        k[i] = float(std::int32_t(bits)) * 0x1p-31f;
        v[i] = float(std::int32_t(bits >> 32)) * 0x1p-31f;
      }
      cache_.store(layer, t, k.data(), v.data(), table);
    }
}

}  // namespace rigcast::engine
