#include "engine/kernels/cuda/recurrent/attention_gate.cuh"

#include <algorithm>

#include "engine/cuda/launch.cuh"

namespace rigcast::engine::cuda {
namespace {

constexpr int kThreads = 128;
constexpr unsigned kMaxRows = 65535;  // of a grid; further ones are the same blocks'

// Where the query of column `column` is in a row; its gate is a head further.
__device__ __forceinline__ int query_at(const GatedRows& g, int column) {
  return column / g.head_dim * 2 * g.head_dim + column % g.head_dim;
}
__device__ __forceinline__ const float* row_of(const GatedRows& g, std::int64_t row) {
  return g.rows + row * 2 * (g.q + g.kv);
}
__device__ __forceinline__ float gate_of(const GatedRows& g, std::int64_t row, int column) {
  return 1.0f / (1.0f + __expf(-row_of(g, row)[query_at(g, column) + g.head_dim]));
}

__global__ void __launch_bounds__(kThreads) take(const GatedRows g, int rows, float* to) {
  allow_next_kernel();
  const int column = int(blockIdx.x) * kThreads + int(threadIdx.x), width = g.q + 2 * g.kv;
  if (column >= width) return;
  const int from = column < g.q ? query_at(g, column) : column + g.q;
  wait_for_inputs();
  for (std::int64_t row = blockIdx.y; row < rows; row += gridDim.y)
    to[row * width + column] = row_of(g, row)[from];
}

// Warps are inside the row, or none of their lanes is.
__global__ void __launch_bounds__(kThreads)
    multiply_row(const GatedRows g, const float* attended, const MixerOutputs out) {
  allow_next_kernel();
  const int column = int(blockIdx.x) * kThreads + int(threadIdx.x);
  if (column >= g.q) return;
  wait_for_inputs();
  put(out, 0, g.q, column, attended[column] * gate_of(g, 0, column));
}

__global__ void __launch_bounds__(kThreads)
    multiply_rows(const GatedRows g, int rows, __half* attended) {
  allow_next_kernel();
  const int column = int(blockIdx.x) * kThreads + int(threadIdx.x);
  if (column >= g.q) return;
  wait_for_inputs();
  for (std::int64_t row = blockIdx.y; row < rows; row += gridDim.y) {
    __half& x = attended[row * g.q + column];
    x = __float2half_rn(__half2float(x) * gate_of(g, row, column));
  }
}

Shape shape_of(int width, int rows) {
  return {dim3(unsigned(width + kThreads - 1) / kThreads, std::min(unsigned(rows), kMaxRows)),
          dim3(kThreads)};
}

}  // namespace

void take_queries(const Stream& stream, const GatedRows& from, int rows, float* to) {
  launch(stream, shape_of(from.q + 2 * from.kv, rows), Start::kEarly, take, from, rows, to);
}

void multiply_by_gates(const Stream& stream, const GatedRows& gates, const float* attended,
                       const MixerOutputs& out) {
  launch(stream, shape_of(gates.q, 1), Start::kEarly, multiply_row, gates, attended, out);
}

void multiply_by_gates(const Stream& stream, const GatedRows& gates, int rows, __half* attended) {
  launch(stream, shape_of(gates.q, rows), Start::kEarly, multiply_rows, gates, rows, attended);
}

}  // namespace rigcast::engine::cuda
