#include "engine/backends/cuda/forward/batch_products.cuh"

#include <algorithm>
#include <initializer_list>

#include "engine/backends/cuda/forward/joined_matrices.hpp"
#include "engine/kernels/cuda/batch/small_batch_gemm.cuh"
#include "engine/kernels/cuda/hopper/tile_rows.cuh"
#include "engine/kernels/cuda/hopper/tiled_gemm.cuh"
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

// Products of tiled activations. There is room for these behind the rows of batch.x in a batch of
// fewer tokens than buffers have room for.
bool is_tiled(const ForwardContext& f, int tokens, Matrices matrices) {
  return tokens <= kMaxTiledTokens && tokens + tiled_tokens(tokens) <= f.buffers.vectors.tokens &&
         has_tiled_gemm() && std::ranges::all_of(matrices, [](const DeviceMatrix* m) {
           return supports_tiled_gemm(m->format) && m->columns % kTileColumns == 0;
         });
}

// batch.x = the norm of the first rows of vectors.hidden, tiled.
TiledBatch tiled_norm(const ForwardContext& f, const float* weight, int tokens) {
  rms_norm_tiled(f.stream, {tokens, f.hidden()}, {f.hidden_row(0), ValueType::kF32, f.hidden()},
                 {weight, f.hyper().norm_eps}, f.buffers.batch.x);
  return {f.buffers.batch.x, tokens};
}

// batch.x = the same, row by row.
void norm(const ForwardContext& f, const float* weight, int tokens) {
  norm_rows(f, 0, tokens, weight, {f.buffers.batch.x, ValueType::kF16, f.hidden()});
}

// The first rows of batch.x, tiled.
TiledBatch tiled_rows(const ForwardContext& f, int tokens, std::int64_t columns) {
  __half* const to = f.buffers.batch.x + tokens * columns;
  tile_rows(f.stream, {f.buffers.batch.x, tokens}, columns, to);
  return {to, tokens};
}

// vectors.hidden += m times x + bias
void add_tiled(const ForwardContext& f, const DeviceMatrix& m, const TiledBatch& x,
               const float* bias, Start start) {
  const SmallBatchJob job{m, f.buffers.vectors.hidden, bias};
  tiled_gemm({&job, 1}, x, {f.hidden(), true}, f.stream, start);
}
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
  const int q = q_width(w.attention), kv = kv_width(w.attention);
  const SmallBatchJob jobs[] = {{w.q, to}, {w.k, to + q}, {w.v, to + q + kv}};
  if (is_tiled(f, tokens, {&w.q, &w.k, &w.v}))
    return tiled_gemm(jobs, tiled_norm(f, w.attention_norm, tokens), {qkv_width(w.attention)},
                      f.stream);
  norm(f, w.attention_norm, tokens);
  if (!is_small_batch(f, tokens, {&w.q, &w.k, &w.v}))
    return multiply(f, {&w.q, &w.k, &w.v}, tokens, {to});
  small_batch_gemm(jobs, {f.buffers.batch.x, tokens}, {qkv_width(w.attention)}, f.stream);
}

bool takes_tiled_attention(const ForwardContext& f, const DeviceLayer& w, int tokens) {
  return is_tiled(f, tokens, {&w.output});
}

// Tiles start after attention. Where kernels of a whole layer may start early, blocks that wait for
// their inputs take the places of those that have them: a step of 8 sequences of an 8B model took
// 3.9 ms instead of 3.2, of 2 of a 3B model 3.3 instead of 2.1 (H100).
void add_attention_output(const ForwardContext& f, const DeviceLayer& w, int tokens, bool tiled) {
  const auto add = [&](const TiledBatch& x) {
    add_tiled(f, w.output, x, w.output_bias, Start::kAfter);
  };
  if (tiled) return add({f.buffers.batch.x, tokens});
  if (is_tiled(f, tokens, {&w.output})) return add(tiled_rows(f, tokens, w.output.columns));
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
  if (w.gate.format == w.up.format && w.gate.rows % kTileColumns == 0 &&
      is_tiled(f, tokens, {&w.gate, &w.up, &w.down})) {
    tiled_gate_up(w.gate, w.up, tiled_norm(f, w.ffn_norm, tokens), batch.ffn_hidden, f.stream);
    return add_tiled(f, w.down, {batch.ffn_hidden, tokens}, nullptr, Start::kEarly);
  }
  norm(f, w.ffn_norm, tokens);
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

void multiply_head(const ForwardContext& f, int rows, float* logits) {
  const DeviceMatrix& w = f.model.gpu.head;
  const int vocabulary = int(f.spec().vocabulary);
  const SmallBatchJob job{w, logits};
  if (is_tiled(f, rows, {&w})) {
    tiled_gemm({&job, 1}, tiled_rows(f, rows, w.columns), {vocabulary}, f.stream);
  } else if (has_small_batch_gemm() && supports_small_batch_gemm(w.format)) {
    small_batch_gemm({&job, 1}, {f.buffers.batch.x, rows}, {vocabulary}, f.stream);
  } else {
    f.matmul.multiply({vocabulary, f.hidden(), rows},
                      {w.soa, f.buffers.batch.x, ValueType::kF16, logits, ValueType::kF32, false});
  }
}

}  // namespace rigcast::engine::cuda
