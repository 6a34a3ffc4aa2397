#include "engine/kernels/cuda/activations/mlp_rows.cuh"

#include "core/base/error.hpp"
#include "engine/cuda/launch.cuh"
#include "engine/kernels/cuda/activations/tile_order.hpp"

namespace rigcast::engine::cuda {
namespace {

constexpr unsigned kThreads = 256;
constexpr int kMaxRows = 65535;  // the limit of a grid's second dimension

__device__ __forceinline__ __half clamped(float x) {
  constexpr float kMax = 65504.0f;  // comparisons leave NaN as it is
  return __float2half_rn(x > kMax ? kMax : x < -kMax ? -kMax : x);
}

// A thread has four neighbouring columns of a row.
__global__ void __launch_bounds__(kThreads)
    apply_mlp_kernel(int width, MlpRows rows, __half* out, int tiled) {
  allow_next_kernel();
  const int column = int(blockIdx.x * kThreads + threadIdx.x) * 4, token = int(blockIdx.y);
  wait_for_inputs();
  if (column >= width) return;
  const std::int64_t at = std::int64_t(token) * width + column;
  float4 x = *reinterpret_cast<const float4*>(rows.x + at);
  if (rows.bias) {
    const float4 b = *reinterpret_cast<const float4*>(rows.bias + column);
    x = {x.x + b.x, x.y + b.y, x.z + b.z, x.w + b.w};
  }
  float4 by{1, 1, 1, 1};
  if (rows.times)
    by = *reinterpret_cast<const float4*>(rows.times + token * rows.times_stride + column);
  const float values[4] = {x.x, x.y, x.z, x.w}, times[4] = {by.x, by.y, by.z, by.w};
#pragma unroll
  for (int i = 0; i < 4; ++i)
    out[tiled > 0 ? tiled_index(width, column + i, token, tiled) : at + i] =
        clamped(rows.function(values[i]) * times[i]);
}

}  // namespace

void apply_mlp(const Stream& stream, const Batch& batch, const MlpRows& rows, __half* out,
               int tiled) {
  RIGCAST_ASSERT(batch.width % 4 == 0 && batch.tokens <= kMaxRows);
  RIGCAST_ASSERT(tiled == 0 ||
                 (batch.width % kTileColumns == 0 && batch.tokens <= kMaxTiledTokens));
  if (batch.tokens == 0 || batch.width == 0) return;
  const dim3 grid((unsigned(batch.width) / 4 + kThreads - 1) / kThreads, unsigned(batch.tokens));
  launch(stream, {grid, dim3(kThreads)}, Start::kEarly, apply_mlp_kernel, batch.width, rows, out,
         tiled);
}

}  // namespace rigcast::engine::cuda
