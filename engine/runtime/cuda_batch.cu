// A batch of a prompt's tokens through all layers: products on the tensor cores, of a short batch
// and of experts in integers, of a long one as halves.

#include <algorithm>
#include <initializer_list>

#include "engine/kernels/cuda/dequantize.cuh"
#include "engine/kernels/cuda/prefill_attention.cuh"
#include "engine/kernels/cuda/short_batch.cuh"
#include "engine/runtime/cuda_state.cuh"

namespace rigcast::engine::cuda {
namespace {

using Matrices = std::initializer_list<const Matrix*>;

// As they lie: halves, one matrix after the other.
bool lie_joined(Matrices matrices) {
  const std::byte* at = (*matrices.begin())->planes;
  for (const Matrix* m : matrices) {
    if (m->format != QuantFormat::kF16 || m->planes != at) return false;
    at += m->rows * m->columns * 2;
  }
  return true;
}

// Halves that a product with these matrices has to write first; of a model without one of them 0.
std::int64_t halves_to_write(Matrices matrices) {
  if (lie_joined(matrices)) return 0;
  std::int64_t halves = 0;
  for (const Matrix* m : matrices) halves += m->rows * m->columns;
  return halves;
}

// The matrices' rows as one matrix of halves: where they lie, or written out.
const void* joined(State& s, Matrices matrices) {
  if (lie_joined(matrices)) return (*matrices.begin())->planes;
  __half* end = s.batch.weights;
  for (const Matrix* m : matrices) {
    dequantize(*m, {0, m->rows}, FloatType::kF16, end, s.stream);
    end += m->rows * m->columns;
  }
  return s.batch.weights;
}

struct Product {
  void* y = nullptr;  // [tokens][rows of all matrices]
  ValueType type = ValueType::kF32;
  bool add = false;  // to what y holds
};

// All matrices times the batch's rows at batch.x.
void multiply(State& s, Matrices matrices, int tokens, const Product& to) {
  int rows = 0;
  for (const Matrix* m : matrices) rows += int(m->rows);
  s.matmul.multiply({rows, int((*matrices.begin())->columns), tokens},
                    {joined(s, matrices), s.batch.x, ValueType::kF16, to.y, to.type, to.add});
}

// to = the hidden states from row `first` on, normed.
void norm(State& s, int first, int tokens, const float* weight, const Rows& to) {
  const int hidden = int(s.spec().hidden);
  float* const from = s.vectors.hidden + std::int64_t(first) * hidden;
  rms_norm(s.stream, {tokens, hidden}, {from, ValueType::kF32, hidden}, {},
           {weight, s.model->hyper.norm_eps}, to);
}

bool are_short(const State& s, int tokens, Matrices matrices) {
  return tokens <= s.shorts.tokens && std::ranges::all_of(matrices, [](const Matrix* m) {
           return takes_short_batch(m->format);
         });
}

// vectors.projected = [q | k | v] of batch.x
void project(State& s, const DeviceLayer& w, int tokens) {
  if (!are_short(s, tokens, {&w.q, &w.k, &w.v}))
    return multiply(s, {&w.q, &w.k, &w.v}, tokens, {s.vectors.projected});
  const int q = s.q_width(), kv = s.kv_width();
  float* const to = s.vectors.projected;
  const ShortBatchJob jobs[] = {{w.q, to}, {w.k, to + q}, {w.v, to + q + kv}};
  short_batch(jobs, {s.batch.x, tokens}, {q + 2 * kv}, s.stream);
}

// vectors.hidden += m times x + bias
void add_product(State& s, const Matrix& m, const __half* x, const float* bias, int tokens) {
  const ShortBatchJob job{m, s.vectors.hidden, bias};
  short_batch({&job, 1}, {x, tokens}, {s.spec().hidden, true}, s.stream);
}

// The same of batch.x.
void add_output(State& s, const DeviceLayer& w, int tokens) {
  if (are_short(s, tokens, {&w.output}))
    return add_product(s, w.output, s.batch.x, w.output_bias, tokens);
  const int hidden = int(s.spec().hidden);
  multiply(s, {&w.output}, tokens, {s.vectors.hidden, ValueType::kF32, true});
  if (w.output_bias)
    add_rows(s.stream, {tokens, hidden}, {s.vectors.hidden, ValueType::kF32, hidden},
             {{}, w.output_bias});
}

void attention(State& s, TokenCount cached, int layer, int tokens) {
  const ModelSpec& m = s.spec();
  const DeviceLayer& w = s.weights.layers[std::size_t(layer)];
  norm(s, 0, tokens, w.attention_norm, {s.batch.x, ValueType::kF16, m.hidden});
  project(s, w, tokens);
  if (s.on_host().cache(layer)) {
    host_attention(s, cached, layer, tokens);
  } else {
    const int kept = s.cache.layer(layer);
    const Cache cache = s.cache.view(layer);
    place(s.stream, placement_of(s, layer), cache, kept, tokens, s.position(), s.vectors.queries);
    ColdBlocks* const cold = s.cache.cold();
    if (cold) cold->await(s.stream, kept);
    attend_causally(s.stream,
                    {s.vectors.queries, tokens, m.heads, window_of(m, layer),
                     cold ? Start::kAfter : Start::kEarly},
                    cache, kept, s.position(), s.batch.x);
    if (cold) cold->done(s.stream, kept);
  }
  add_output(s, w, tokens);
}

void ffn(State& s, const DeviceLayer& w, int tokens) {
  norm(s, 0, tokens, w.ffn_norm, {s.batch.x, ValueType::kF16, s.spec().hidden});
  if (are_short(s, tokens, {&w.gate, &w.up, &w.down})) {
    short_batch_gate_up(w.gate, w.up, {s.batch.x, tokens}, s.shorts.between, s.batch.middle,
                        s.stream);
    return add_product(s, w.down, s.batch.middle, nullptr, tokens);
  }
  const int width = int(w.gate.rows), both = 2 * width;
  multiply(s, {&w.gate, &w.up}, tokens, {s.batch.middle, ValueType::kF16});
  silu_times(s.stream, {tokens, width}, {s.batch.middle, ValueType::kF16, both},
             {s.batch.middle + width, ValueType::kF16, both}, {s.batch.x, ValueType::kF16, width});
  multiply(s, {&w.down}, tokens, {s.vectors.hidden, ValueType::kF32, true});
}

// Of rows [first, first + tokens) of vectors.hidden. The router takes floats: halves would send
// tokens elsewhere.
void experts_in_groups(State& s, const DeviceLayer& w, int first, int tokens) {
  const std::int64_t hidden = s.spec().hidden;
  ShortVectors& v = s.shorts;
  ExpertGroups g = v.groups;
  g.tokens = tokens;
  g.group_tokens = group_tokens_for(tokens, g.chosen.used, g.experts);
  norm(s, first, tokens, w.ffn_norm, {s.batch.x, ValueType::kF16, hidden});
  norm(s, first, tokens, w.ffn_norm, {s.vectors.normed, ValueType::kF32, hidden});
  route_batch({w.router, s.model->hyper.normalised_experts, v.router_logits}, s.vectors.normed, g,
              s.stream);
  grouped_gate_up(w.expert_gate, w.expert_up, g, s.batch.x, v.between, v.middle, s.stream);
  grouped_down(w.expert_down, g, v.middle, v.experts, s.stream);
  add_experts(g, v.experts, int(hidden), s.vectors.hidden + first * hidden, s.stream);
}

void experts(State& s, const DeviceLayer& w, int tokens) {
  const bool groups = groups_experts(s, w);
  const int at_once = groups ? s.shorts.routed : 1;
  for (int first = 0; first < tokens; first += at_once)
    if (groups)
      experts_in_groups(s, w, first, std::min(at_once, tokens - first));
    else
      queue_experts(s, w, first);
}

}  // namespace

std::int64_t halves_for_batch(const DeviceModel& model) {
  std::int64_t most = 0;
  for (const DeviceLayer& w : model.layers)
    most = std::max({most, halves_to_write({&w.q, &w.k, &w.v}), halves_to_write({&w.output}),
                     halves_to_write({&w.gate, &w.up}), halves_to_write({&w.down})});
  return most;
}

bool groups_experts(const State& s, const DeviceLayer& w) {
  return s.shorts.routed > 0 && takes_short_batch(w.expert_gate.first.format) &&
         takes_short_batch(w.expert_up.first.format) &&
         takes_short_batch(w.expert_down.first.format);
}

void queue_batch(State& s, TokenCount cached, std::span<const std::int32_t> ids, Stages* stages) {
  const int tokens = int(ids.size());
  const auto begin = [&](ActivityKind kind, int layer) {
    if (stages) stages->begin(kind, layer);
  };
  begin(ActivityKind::kEmbedding, -1);
  if (ColdBlocks* const cold = s.cache.cold()) cold->begin_step(s.stream, 0, stages);
  make_turns(s.stream, s.weights.frequencies, s.model->hyper.rope_dims / 2, tokens, s.position(),
             s.vectors.turns);
  if (s.on_host().embedding())
    host_embedding(s, cached, ids);
  else
    gather_rows(s.weights.embedding, s.vectors.ids, tokens, s.vectors.hidden, s.stream);
  for (int layer = 0; layer < s.spec().layers;) {
    if (const int end = s.on_host().end_of_layers(layer); end > layer) {
      begin(ActivityKind::kHandoff, layer);
      host_layers(s, cached, layer, end, tokens);
      layer = end;
      continue;
    }
    const DeviceLayer& w = s.weights.layers[std::size_t(layer)];
    begin(ActivityKind::kAttention, layer);
    attention(s, cached, layer, tokens);
    begin(w.router ? ActivityKind::kExperts : ActivityKind::kFfn, layer);
    if (!w.router)
      ffn(s, w, tokens);
    else if (s.on_host().experts(layer))
      host_experts(s, cached, layer, tokens);
    else
      experts(s, w, tokens);
    ++layer;
  }
  advance(s.stream, s.position(), tokens);
}

}  // namespace rigcast::engine::cuda
