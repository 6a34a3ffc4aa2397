// A batch of a prompt's tokens through all layers: products on the tensor cores, of a short batch
// and of experts in integers, of a long one as halves.

#include <algorithm>
#include <initializer_list>

#include "engine/backends/cuda/state.cuh"
#include "engine/kernels/cuda/attention/prefill_attention.cuh"
#include "engine/kernels/cuda/batch/short_batch.cuh"
#include "engine/kernels/cuda/weights/dequantize.cuh"

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
    const bool lent = s.on_host().layer(layer);
    const Cache cache = lent ? s.streams.cache->view() : s.cache.view(layer);
    const int kept = lent ? 0 : s.cache.layer(layer);
    ColdBlocks* const cold = lent ? nullptr : s.cache.cold();
    place(s.stream, placement_of(s, layer), cache, kept, tokens, s.position(), s.vectors.queries);
    if (cold) cold->await(s.stream, kept);
    attend_causally(s.stream, {s.vectors.queries, tokens, m.heads, window_of(m, layer)}, cache,
                    kept, s.position(), s.batch.x);
    if (cold) cold->done(s.stream, kept);
    if (lent) s.streams.cache->store(layer, cached, tokens);
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

// Products of these experts' groups.
struct GroupWeights {
  const MatrixStack &gate, &up, &down;
};
void multiply_groups(State& s, const GroupWeights& w, const ExpertGroups& g) {
  ShortVectors& v = s.shorts;
  grouped_gate_up(w.gate, w.up, g, s.batch.x, v.between, v.middle, s.stream);
  grouped_down(w.down, g, v.middle, v.experts, s.stream);
}

// The same with weights that are copied from the host as they are chosen.
void multiply_brought(State& s, int layer, const ExpertGroups& g) {
  ExpertStream& stream = *s.streams.experts;
  const std::span<int> counts = stream.counts();
  RIGCAST_CUDA_CALL(cudaMemcpyAsync(counts.data(), g.counts, counts.size_bytes(),
                                    cudaMemcpyDeviceToHost, s.stream.get()));
  s.stream.wait();
  const auto groups_of = [&](int first, int end) {
    int groups = 0;
    for (int e = first; e < end; ++e)
      groups += (counts[std::size_t(e)] + g.group_tokens - 1) / g.group_tokens;
    return groups;
  };
  stream.bring(layer, counts, [&](const ArrivedExperts& here) {
    ExpertGroups own = g;
    own.groups += groups_of(0, here.first);
    own.at_most = groups_of(here.first, here.end);
    multiply_groups(s, {here.gate, here.up, here.down}, own);
  });
}

// Of rows [first, first + tokens) of vectors.hidden. The router takes floats: halves would send
// tokens elsewhere.
void experts_in_groups(State& s, int layer, bool brought, int first, int tokens) {
  const DeviceLayer& w = s.weights.layers[std::size_t(layer)];
  const std::int64_t hidden = s.spec().hidden;
  ShortVectors& v = s.shorts;
  ExpertGroups g = v.groups;
  g.tokens = tokens;
  g.group_tokens = group_tokens_for(tokens, g.chosen.used, g.experts);
  norm(s, first, tokens, w.ffn_norm, {s.batch.x, ValueType::kF16, hidden});
  norm(s, first, tokens, w.ffn_norm, {s.vectors.normed, ValueType::kF32, hidden});
  route_batch({w.router, s.model->hyper.normalised_experts, v.router_logits}, s.vectors.normed, g,
              s.stream);
  if (brought)
    multiply_brought(s, layer, g);
  else
    multiply_groups(s, {w.expert_gate, w.expert_up, w.expert_down}, g);
  add_experts(g, v.experts, int(hidden), s.vectors.hidden + first * hidden, s.stream);
}

void experts(State& s, int layer, bool brought, int tokens) {
  const DeviceLayer& w = s.weights.layers[std::size_t(layer)];
  const bool groups = groups_experts(s, w);
  const int at_once = groups ? s.shorts.routed : 1;
  for (int first = 0; first < tokens; first += at_once)
    if (groups)
      experts_in_groups(s, layer, brought, first, std::min(at_once, tokens - first));
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

// A whole batch of so many tokens may be queued: it takes a fraction of a second after the longest
// of contexts, and marks between its kernels would keep them from beginning early.
constexpr int kUnpaced = 512;

void queue_batch(State& s, TokenCount cached, std::span<const std::int32_t> ids, Stages* stages) {
  const int tokens = int(ids.size());
  const auto begin = [&](ActivityKind kind, int layer) {
    if (stages) stages->begin(kind, layer);
  };
  const BatchWay way = way_of_batch(s, cached, tokens);
  begin(ActivityKind::kEmbedding, -1);
  begin_streams(s, way, cached, tokens);
  if (ColdBlocks* const cold = s.cache.cold()) cold->begin_step(s.stream, 0, false, stages);
  make_turns(s.stream, s.weights.frequencies, s.model->hyper.rope_dims / 2, tokens, s.position(),
             s.vectors.turns);
  if (s.on_host().embedding())
    host_embedding(s, cached, ids);
  else
    gather_rows(s.weights.embedding, s.vectors.ids, tokens, s.vectors.hidden, s.stream);
  for (int layer = 0; layer < s.spec().layers;) {
    s.stop.leave_if_asked();
    const bool brought = is_brought(s, way, layer);
    if (s.on_host().layer(layer) && !brought) {
      int end = layer + 1;
      while (end < s.on_host().end_of_layers(layer) && !is_brought(s, way, end)) ++end;
      begin(ActivityKind::kHandoff, layer);
      host_layers(s, cached, layer, end, tokens);
      layer = end;
      continue;
    }
    if (brought || tokens > kUnpaced) s.pace.begin_layer(s.stream);
    if (brought) {
      begin(ActivityKind::kFetchWeights, layer);
      bring_layer(s, cached, layer);
    }
    const DeviceLayer& w = s.weights.layers[std::size_t(layer)];
    begin(ActivityKind::kAttention, layer);
    attention(s, cached, layer, tokens);
    begin(w.router ? ActivityKind::kExperts : ActivityKind::kFfn, layer);
    if (!w.router)
      ffn(s, w, tokens);
    else if (const bool kept = s.on_host().computes_experts(layer);
             kept && !brings_experts(s, way, layer))
      host_experts(s, cached, layer, tokens);
    else
      experts(s, layer, kept, tokens);
    ++layer;
  }
  advance(s.stream, s.position(), tokens);
  end_streams(s, way);
}

}  // namespace rigcast::engine::cuda
