// A batch of a prompt's tokens through all layers: products on the tensor cores.

#include <algorithm>
#include <initializer_list>

#include "engine/kernels/cuda/dequantize.cuh"
#include "engine/kernels/cuda/prefill_attention.cuh"
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

// batch.x = the normed hidden states.
void norm(State& s, int tokens, const float* weight) {
  const int hidden = int(s.spec().hidden);
  rms_norm(s.stream, {tokens, hidden}, {s.vectors.hidden, ValueType::kF32, hidden}, {},
           {weight, s.model->hyper.norm_eps}, {s.batch.x, ValueType::kF16, hidden});
}

void attention(State& s, int layer, int tokens) {
  const ModelSpec& m = s.spec();
  const int hidden = int(m.hidden);
  const DeviceLayer& w = s.weights.layers[std::size_t(layer)];
  norm(s, tokens, w.attention_norm);
  multiply(s, {&w.q, &w.k, &w.v}, tokens, {s.vectors.projected});
  place(s.stream, placement_of(s, layer), s.cache.view(), layer, tokens, s.position(),
        s.vectors.queries);
  attend_causally(s.stream, {s.vectors.queries, tokens, m.heads, window_of(m, layer)},
                  s.cache.view(), layer, s.position(), s.batch.x);
  multiply(s, {&w.output}, tokens, {s.vectors.hidden, ValueType::kF32, true});
  if (w.output_bias)
    add_rows(s.stream, {tokens, hidden}, {s.vectors.hidden, ValueType::kF32, hidden},
             {{}, w.output_bias});
}

void ffn(State& s, const DeviceLayer& w, int tokens) {
  const int width = int(w.gate.rows), both = 2 * width;
  norm(s, tokens, w.ffn_norm);
  multiply(s, {&w.gate, &w.up}, tokens, {s.batch.middle, ValueType::kF16});
  silu_times(s.stream, {tokens, width}, {s.batch.middle, ValueType::kF16, both},
             {s.batch.middle + width, ValueType::kF16, both}, {s.batch.x, ValueType::kF16, width});
  multiply(s, {&w.down}, tokens, {s.vectors.hidden, ValueType::kF32, true});
}

}  // namespace

std::int64_t halves_for_batch(const DeviceModel& model) {
  std::int64_t most = 0;
  for (const DeviceLayer& w : model.layers)
    most = std::max({most, halves_to_write({&w.q, &w.k, &w.v}), halves_to_write({&w.output}),
                     halves_to_write({&w.gate, &w.up}), halves_to_write({&w.down})});
  return most;
}

void queue_batch(State& s, int tokens, Stages* stages) {
  const auto begin = [&](ActivityKind kind, int layer) {
    if (stages) stages->begin(kind, layer);
  };
  begin(ActivityKind::kEmbedding, -1);
  make_turns(s.stream, s.weights.frequencies, s.model->hyper.rope_dims / 2, tokens, s.position(),
             s.vectors.turns);
  gather_rows(s.weights.embedding, s.vectors.ids, tokens, s.vectors.hidden, s.stream);
  for (int layer = 0; layer < s.spec().layers; ++layer) {
    const DeviceLayer& w = s.weights.layers[std::size_t(layer)];
    begin(ActivityKind::kAttention, layer);
    attention(s, layer, tokens);
    begin(w.router ? ActivityKind::kExperts : ActivityKind::kFfn, layer);
    if (!w.router) {
      ffn(s, w, tokens);
      continue;
    }
    for (int row = 0; row < tokens; ++row) queue_experts(s, w, row);
  }
  advance(s.stream, s.position(), tokens);
}

}  // namespace rigcast::engine::cuda
