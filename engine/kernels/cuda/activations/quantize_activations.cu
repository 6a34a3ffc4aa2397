#include "engine/kernels/cuda/activations/quantize_activations.cuh"

#include <stdexcept>

#include "core/base/error.hpp"
#include "engine/kernels/cuda/activations/quantize_device.cuh"

namespace rigcast::engine::cuda {
namespace {

// Each thread has four neighbouring values: 8 lanes hold the 32 values of a scale, so all 8 are
// inside the row, or none.
__device__ void quantize_four(float4 v, int column, bool inside, const QuantizedActivations& out) {
  const float magnitude =
      fmaxf(fmaxf(fabsf(v.x), fabsf(v.y)), fmaxf(fabsf(v.z), fabsf(v.w)));  // passes NaN over
  const QuantizationScale s = quantization_scale(max_over_lanes(magnitude, 8));
  const std::uint32_t q = quantized_byte(v.x, s.inverse) | quantized_byte(v.y, s.inverse) << 8 |
                          quantized_byte(v.z, s.inverse) << 16 |
                          quantized_byte(v.w, s.inverse) << 24;
  const int sum = sum_of(__dp4a(int(q), 0x01010101, 0), 4);
  if (!inside) return;
  *reinterpret_cast<std::uint32_t*>(out.q + column) = q;
  if (column % 32 == 0) out.scale[column / 32] = s.scale;
  if (column % 16 == 0) out.sum16[column / 16] = s.scale * float(sum);
}

__device__ float sum_over_block(float value) {
  __shared__ float warps[32];
  for (int d = 16; d > 0; d /= 2) value += __shfl_xor_sync(~0u, value, d);
  __syncthreads();  // sums before have been read
  if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = value;
  __syncthreads();
  value = threadIdx.x % 32 < blockDim.x / 32 ? warps[threadIdx.x % 32] : 0.0f;
  for (int d = 16; d > 0; d /= 2) value += __shfl_xor_sync(~0u, value, d);
  return value;
}

constexpr int kMaxThreads = 1024;

struct Row {
  Tokens tokens;
  Norm norm;  // no weight: the row is quantized without a norm
  QuantizedActivations out;
  float* also;
  BranchSum added;
};

// The part of a token's output that this block writes.
__device__ QuantizedActivations quantized_at(const QuantizedActivations& r, std::int64_t token,
                                             int columns) {
  return {r.q + token * columns, r.scale + token * (columns / 32),
          r.sum16 + token * (columns / 16)};
}

__device__ float4 times(float4 a, float b) { return {a.x * b, a.y * b, a.z * b, a.w * b}; }
__device__ float4 times(float4 a, float4 b) { return {a.x * b.x, a.y * b.y, a.z * b.z, a.w * b.w}; }
__device__ float4 plus(float4 a, float4 b) { return {a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w}; }
__device__ float4 minus(float4 a, float b) { return {a.x - b, a.y - b, a.z - b, a.w - b}; }
__device__ float sum(float4 a) { return (a.x + a.y) + (a.z + a.w); }
__device__ float square(float4 a) { return a.x * a.x + a.y * a.y + a.z * a.z + a.w * a.w; }

// x += the branch, whose values are those of x's columns. All are this thread's. `weight`: of the
// branch's norm, as far as it was read ahead.
template <int kFours, int kAhead, class Column>
__device__ void add_branch(const BranchSum& sum, std::int64_t first, int columns,
                           const Column& column, const float4 (&weight)[kAhead],
                           float4 (&x)[kFours]) {
  float4 branch[kFours];
  float squares = 0;
#pragma unroll
  for (int i = 0; i < kFours; ++i) {
    branch[i] = column(i) < columns
                    ? *reinterpret_cast<const float4*>(sum.branch + first + column(i))
                    : float4{};
    squares += square(branch[i]);
  }
  float scale = 1;
  if (sum.norm.weight) scale = 1 / sqrtf(sum_over_block(squares) / float(columns) + sum.norm.eps);
#pragma unroll
  for (int i = 0; i < kFours; ++i) {
    if (column(i) >= columns) continue;
    branch[i] = times(branch[i], scale);
    if (sum.norm.weight)
      branch[i] =
          times(branch[i], i < kAhead - 1
                               ? weight[i % kAhead]
                               : *reinterpret_cast<const float4*>(sum.norm.weight + column(i)));
    x[i] = plus(x[i], times(branch[i], sum.factor));
    if (sum.scale != 1) x[i] = times(x[i], sum.scale);
    *reinterpret_cast<float4*>(sum.hidden + first + column(i)) = x[i];
  }
}

// Subtracts the mean of a row's columns from them; what is past the last one stays 0.
template <int kFours, class Column>
__device__ void subtract_mean(int columns, const Column& column, float4 (&x)[kFours]) {
  float all = 0;
#pragma unroll
  for (int i = 0; i < kFours; ++i) all += sum(x[i]);
  const float mean = sum_over_block(all) / float(columns);
#pragma unroll
  for (int i = 0; i < kFours; ++i)
    if (column(i) < columns) x[i] = minus(x[i], mean);
}

enum class RowNorm { kNone, kSquares, kMean };

// `kAdd`: a branch is added to the row first.
template <int kFours, RowNorm kRowNorm, bool kAdd>
__global__ void __launch_bounds__(kMaxThreads) quantize_row(Row row) {
  constexpr bool kNorm = kRowNorm != RowNorm::kNone;
  allow_next_kernel();
  const int columns = row.tokens.columns;
  const std::int64_t token = blockIdx.x;
  const auto column = [&](int i) { return int(i * blockDim.x + threadIdx.x) * 4; };
  const auto at_column = [&](const float* weight, int i) {
    return weight && column(i) < columns ? *reinterpret_cast<const float4*>(weight + column(i))
                                         : float4{};
  };
  constexpr int kAhead = kNorm && kFours <= 4 ? kFours : 0;  // more values do not fit into
                                                             // registers
  constexpr int kBranchAhead = kAdd && kFours <= 2 ? kFours : 0;
  float4 x[kFours], weight[kAhead + 1], of_branch[kBranchAhead + 1];
#pragma unroll
  for (int i = 0; i < kAhead; ++i) weight[i] = at_column(row.norm.weight, i);
#pragma unroll
  for (int i = 0; i < kBranchAhead; ++i) of_branch[i] = at_column(row.added.norm.weight, i);
  wait_for_inputs();
  float squares = 0;
#pragma unroll
  for (int i = 0; i < kFours; ++i) {
    const float* from = row.tokens.x + token * columns + column(i);
    x[i] = column(i) < columns ? *reinterpret_cast<const float4*>(from) : float4{};
  }
  if constexpr (kAdd) add_branch(row.added, token * columns, columns, column, of_branch, x);
  if constexpr (kRowNorm == RowNorm::kMean) subtract_mean(columns, column, x);
#pragma unroll
  for (int i = 0; i < kFours; ++i) squares += square(x[i]);
  float scale = 1;
  if (kNorm) scale = 1 / sqrtf(sum_over_block(squares) / float(columns) + row.norm.eps);
#pragma unroll
  for (int i = 0; i < kFours; ++i) {
    const bool inside = column(i) < columns;
    if (kNorm)
      x[i] = times(times(x[i], scale),
                   i < kAhead ? weight[i % (kAhead + 1)] : at_column(row.norm.weight, i));
    if constexpr (kRowNorm == RowNorm::kMean)
      if (row.norm.bias && inside)
        x[i] = plus(x[i], *reinterpret_cast<const float4*>(row.norm.bias + column(i)));
    if (row.also && inside)
      *reinterpret_cast<float4*>(row.also + token * columns + column(i)) = x[i];
    if (row.out.q) quantize_four(x[i], column(i), inside, quantized_at(row.out, token, columns));
  }
}

template <RowNorm kNorm, bool kAdd>
void quantize_rows_kernel(const Row& row, const Stream& stream, Start start) {
  const int columns = row.tokens.columns;
  if (columns % 32 != 0 || columns <= 0 || columns > kMaxColumns)
    throw std::invalid_argument("rounding: columns must be a multiple of 32 up to 65536");
  if (row.tokens.count == 0) return;
  const int fours = (columns / 4 + kMaxThreads - 1) / kMaxThreads;  // of a thread
  const int threads = (columns / 4 + fours - 1) / fours;
  const Shape shape{dim3(unsigned(row.tokens.count)), dim3(unsigned(threads + 31) / 32 * 32)};
  if (fours <= 1) return launch(stream, shape, start, quantize_row<1, kNorm, kAdd>, row);
  if (fours <= 2) return launch(stream, shape, start, quantize_row<2, kNorm, kAdd>, row);
  if (fours <= 4) return launch(stream, shape, start, quantize_row<4, kNorm, kAdd>, row);
  if (fours <= 8) return launch(stream, shape, start, quantize_row<8, kNorm, kAdd>, row);
  launch(stream, shape, start, quantize_row<16, kNorm, kAdd>, row);
}

template <RowNorm kNorm>
void quantize_rows(const Row& row, const Stream& stream, Start start) {
  if (!row.added.branch) return quantize_rows_kernel<kNorm, false>(row, stream, start);
  RIGCAST_ASSERT(row.added.hidden == row.tokens.x);
  quantize_rows_kernel<kNorm, true>(row, stream, start);
}

}  // namespace

void norm_and_quantize(const Tokens& tokens, const Norm& norm, const QuantizedActivations& out,
                       float* also, const Stream& stream, Start start, const BranchSum& added) {
  const Row row{tokens, norm, out, also, added};
  if (norm.subtracts_mean) return quantize_rows<RowNorm::kMean>(row, stream, start);
  quantize_rows<RowNorm::kSquares>(row, stream, start);
}

void quantize_tokens(const Tokens& tokens, const QuantizedActivations& out, const Stream& stream,
                     Start start, const BranchSum& added) {
  quantize_rows<RowNorm::kNone>({tokens, {}, out, nullptr, added}, stream, start);
}

}  // namespace rigcast::engine::cuda
