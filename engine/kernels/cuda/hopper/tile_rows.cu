#include "engine/kernels/cuda/hopper/tile_rows.cuh"

#include <stdexcept>

#include "engine/cuda/launch.cuh"
#include "engine/kernels/cuda/activations/tile_order.hpp"

namespace rigcast::engine::cuda {
namespace {

constexpr int kThreads = 128;

// A thread moves four columns of each of four units: both halves of a step for one token.
__global__ void tile(const __half* x, int tokens, std::int64_t columns, int tiled, __half* to) {
  wait_for_inputs();
  allow_next_kernel();
  const int i = int(blockIdx.x) * kThreads + int(threadIdx.x);
  const int token = int(blockIdx.y);
  if (std::int64_t(i) * 16 >= columns) return;
  const std::int64_t column = first_column_of_step(i);
  const __half* const from = x + token * columns + column;
  uint2 of_unit[4];
#pragma unroll
  for (int unit = 0; unit < 4; ++unit)
    of_unit[unit] = *reinterpret_cast<const uint2*>(from + unit * 32);
  std::uint32_t words[2][4];
#pragma unroll
  for (int unit = 0; unit < 4; ++unit) {
    words[0][unit] = __byte_perm(of_unit[unit].x, of_unit[unit].y, 0x5410);
    words[1][unit] = __byte_perm(of_unit[unit].x, of_unit[unit].y, 0x7632);
  }
#pragma unroll
  for (int half = 0; half < 2; ++half)
    *reinterpret_cast<uint4*>(to + tiled_index(columns, column + half, token, tiled)) =
        *reinterpret_cast<const uint4*>(words[half]);
}

}  // namespace

void tile_rows(const Stream& stream, const Fp16Batch& x, std::int64_t columns, __half* tiled) {
  if (columns % kTileColumns != 0 || x.tokens > kMaxTiledTokens)
    throw std::invalid_argument("tile_rows: shapes that it does not take");
  if (x.tokens == 0) return;
  const auto threads = unsigned(columns / 16);
  launch(stream, {dim3((threads + kThreads - 1) / kThreads, unsigned(x.tokens)), dim3(kThreads)},
         Start::kEarly, tile, x.x, x.tokens, columns, tiled_tokens(x.tokens), tiled);
}

}  // namespace rigcast::engine::cuda
