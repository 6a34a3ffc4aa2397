#include "engine/backends/cuda/forward/batch_products.cuh"

#include <algorithm>
#include <initializer_list>

#include "engine/backends/cuda/forward/joined_matrices.hpp"
#include "engine/kernels/cuda/batch/small_batch_gemm.cuh"
#include "engine/kernels/cuda/weights/dequantize.cuh"

namespace rigcast::engine::cuda {
namespace {

using Matrices = std::initializer_list<const DeviceMatrix*>;

// True if the matrices are FP16 and contiguous, so that one product reads them without a copy.
bool are_contiguous(Matrices matrices) {
  const std::byte* at = (*matrices.begin())->soa;
  for (const DeviceMatrix* m : matrices) {
    if (m->format != QuantFormat::kF16 || m->soa != at) return false;
    at += m->rows * m->columns * 2;
  }
  return true;
}

// FP16 elements that must be written before a product with these matrices; 0 if the model has none
// of them.
std::int64_t fp16_weights_to_write(Matrices matrices) {
  if (are_contiguous(matrices)) return 0;
  std::int64_t elements = 0;
  for (const DeviceMatrix* m : matrices) elements += m->rows * m->columns;
  return elements;
}

// The matrices' rows as one FP16 matrix: in place, or dequantized into batch.weights.
const void* joined(const ForwardContext& f, Matrices matrices) {
  if (are_contiguous(matrices)) return (*matrices.begin())->soa;
  __half* end = f.buffers.batch.weights;
  for (const DeviceMatrix* m : matrices) {
    dequantize(*m, {0, m->rows}, FloatType::kF16, end, f.stream);
    end += m->rows * m->columns;
  }
  return f.buffers.batch.weights;
}

struct Product {
  void* y = nullptr;  // [tokens][rows of all matrices]
  ValueType type = ValueType::kF32;
  bool add = false;  // accumulate into y
};

// Multiplies all matrices by the batch's rows at batch.x.
void multiply(const ForwardContext& f, Matrices matrices, int tokens, const Product& to) {
  int rows = 0;
  for (const DeviceMatrix* m : matrices) rows += int(m->rows);
  f.matmul.multiply(
      {rows, int((*matrices.begin())->columns), tokens},
      {joined(f, matrices), f.buffers.batch.x, ValueType::kF16, to.y, to.type, to.add});
}

bool is_small_batch(const ForwardContext& f, int tokens, Matrices matrices) {
  return tokens <= f.buffers.small_batch.tokens &&
         std::ranges::all_of(
             matrices, [](const DeviceMatrix* m) { return supports_small_batch_gemm(m->format); });
}

// vectors.hidden += m times x + bias
void add_small_batch(const ForwardContext& f, const DeviceMatrix& m, const Fp16Batch& x,
                     const float* bias) {
  const SmallBatchJob job{m, f.buffers.vectors.hidden, bias};
  small_batch_gemm({&job, 1}, x, {f.hidden(), true}, f.stream);
}

}  // namespace

std::int64_t fp16_weights_for_batch(const DeviceModel& model) {
  std::int64_t most = 0;
  for (const DeviceLayer& w : model.layers)
    for_each_product(
        w, [&](Matrices joined) { most = std::max(most, fp16_weights_to_write(joined)); });
  return most;
}

void norm_rows(const ForwardContext& f, int first, int tokens, const float* weight,
               const Rows& to) {
  rms_norm(f.stream, {tokens, f.hidden()}, {f.hidden_row(first), ValueType::kF32, f.hidden()}, {},
           {weight, f.hyper().norm_eps}, to);
}

void project_qkv(const ForwardContext& f, const DeviceLayer& w, int tokens) {
  float* const to = f.buffers.vectors.projected;
  if (!is_small_batch(f, tokens, {&w.q, &w.k, &w.v}))
    return multiply(f, {&w.q, &w.k, &w.v}, tokens, {to});
  const int q = q_width(w.attention), kv = kv_width(w.attention);
  const SmallBatchJob jobs[] = {{w.q, to}, {w.k, to + q}, {w.v, to + q + kv}};
  small_batch_gemm(jobs, {f.buffers.batch.x, tokens}, {qkv_width(w.attention)}, f.stream);
}

void add_attention_output(const ForwardContext& f, const DeviceLayer& w, int tokens) {
  if (is_small_batch(f, tokens, {&w.output}))
    return add_small_batch(f, w.output, {f.buffers.batch.x, tokens}, w.output_bias);
  float* const hidden = f.buffers.vectors.hidden;
  multiply(f, {&w.output}, tokens, {hidden, ValueType::kF32, true});
  if (w.output_bias)
    add_rows(f.stream, {tokens, f.hidden()}, {hidden, ValueType::kF32, f.hidden()},
             {{}, w.output_bias});
}

void add_ffn(const ForwardContext& f, const DeviceLayer& w, int tokens) {
  const PrefillBuffers& batch = f.buffers.batch;
  if (is_small_batch(f, tokens, {&w.gate, &w.up, &w.down})) {
    small_batch_gate_up(w.gate, w.up, {batch.x, tokens}, f.buffers.small_batch.gate_out,
                        batch.ffn_hidden, f.stream);
    return add_small_batch(f, w.down, {batch.ffn_hidden, tokens}, nullptr);
  }
  const int width = int(w.gate.rows), both = 2 * width;
  multiply(f, {&w.gate, &w.up}, tokens, {batch.ffn_hidden, ValueType::kF16});
  silu_times(f.stream, {tokens, width}, {batch.ffn_hidden, ValueType::kF16, both},
             {batch.ffn_hidden + width, ValueType::kF16, both}, {batch.x, ValueType::kF16, width});
  multiply(f, {&w.down}, tokens, {f.buffers.vectors.hidden, ValueType::kF32, true});
}

}  // namespace rigcast::engine::cuda
