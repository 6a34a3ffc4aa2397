#include "engine/backends/cuda/forward/batch_products.cuh"

#include <algorithm>
#include <initializer_list>

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
const void* joined(const ForwardContext& f, Matrices matrices) {
  if (lie_joined(matrices)) return (*matrices.begin())->planes;
  __half* end = f.buffers.batch.weights;
  for (const Matrix* m : matrices) {
    dequantize(*m, {0, m->rows}, FloatType::kF16, end, f.stream);
    end += m->rows * m->columns;
  }
  return f.buffers.batch.weights;
}

struct Product {
  void* y = nullptr;  // [tokens][rows of all matrices]
  ValueType type = ValueType::kF32;
  bool add = false;  // to what y holds
};

// All matrices times the batch's rows at batch.x.
void multiply(const ForwardContext& f, Matrices matrices, int tokens, const Product& to) {
  int rows = 0;
  for (const Matrix* m : matrices) rows += int(m->rows);
  f.matmul.multiply(
      {rows, int((*matrices.begin())->columns), tokens},
      {joined(f, matrices), f.buffers.batch.x, ValueType::kF16, to.y, to.type, to.add});
}

bool are_short(const ForwardContext& f, int tokens, Matrices matrices) {
  return tokens <= f.buffers.shorts.tokens && std::ranges::all_of(matrices, [](const Matrix* m) {
           return takes_short_batch(m->format);
         });
}

// vectors.hidden += m times x + bias
void add_short(const ForwardContext& f, const Matrix& m, const HalfBatch& x, const float* bias) {
  const ShortBatchJob job{m, f.buffers.vectors.hidden, bias};
  short_batch({&job, 1}, x, {f.hidden(), true}, f.stream);
}

}  // namespace

std::int64_t halves_for_batch(const DeviceModel& model) {
  std::int64_t most = 0;
  for (const DeviceLayer& w : model.layers)
    most = std::max({most, halves_to_write({&w.q, &w.k, &w.v}), halves_to_write({&w.output}),
                     halves_to_write({&w.gate, &w.up}), halves_to_write({&w.down})});
  return most;
}

void norm_rows(const ForwardContext& f, int first, int tokens, const float* weight,
               const Rows& to) {
  rms_norm(f.stream, {tokens, f.hidden()}, {f.hidden_row(first), ValueType::kF32, f.hidden()}, {},
           {weight, f.hyper().norm_eps}, to);
}

void project_qkv(const ForwardContext& f, const DeviceLayer& w, int tokens) {
  float* const to = f.buffers.vectors.projected;
  if (!are_short(f, tokens, {&w.q, &w.k, &w.v}))
    return multiply(f, {&w.q, &w.k, &w.v}, tokens, {to});
  const int q = q_width(w.attention), kv = kv_width(w.attention);
  const ShortBatchJob jobs[] = {{w.q, to}, {w.k, to + q}, {w.v, to + q + kv}};
  short_batch(jobs, {f.buffers.batch.x, tokens}, {qkv_width(w.attention)}, f.stream);
}

void add_attention_output(const ForwardContext& f, const DeviceLayer& w, int tokens) {
  if (are_short(f, tokens, {&w.output}))
    return add_short(f, w.output, {f.buffers.batch.x, tokens}, w.output_bias);
  float* const hidden = f.buffers.vectors.hidden;
  multiply(f, {&w.output}, tokens, {hidden, ValueType::kF32, true});
  if (w.output_bias)
    add_rows(f.stream, {tokens, f.hidden()}, {hidden, ValueType::kF32, f.hidden()},
             {{}, w.output_bias});
}

void add_ffn(const ForwardContext& f, const DeviceLayer& w, int tokens) {
  const BatchVectors& batch = f.buffers.batch;
  if (are_short(f, tokens, {&w.gate, &w.up, &w.down})) {
    short_batch_gate_up(w.gate, w.up, {batch.x, tokens}, f.buffers.shorts.between, batch.middle,
                        f.stream);
    return add_short(f, w.down, {batch.middle, tokens}, nullptr);
  }
  const int width = int(w.gate.rows), both = 2 * width;
  multiply(f, {&w.gate, &w.up}, tokens, {batch.middle, ValueType::kF16});
  silu_times(f.stream, {tokens, width}, {batch.middle, ValueType::kF16, both},
             {batch.middle + width, ValueType::kF16, both}, {batch.x, ValueType::kF16, width});
  multiply(f, {&w.down}, tokens, {f.buffers.vectors.hidden, ValueType::kF32, true});
}

}  // namespace rigcast::engine::cuda
