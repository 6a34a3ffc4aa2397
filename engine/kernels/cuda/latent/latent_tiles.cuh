#pragma once
// Device code: a tile of the latent cache in shared memory, and the products of 16 queries with it,
// by a thread block of kLatentWarps warps.

#include "engine/kernels/cuda/attention/attention_tiles.cuh"
#include "engine/kernels/cuda/kv/row_pieces.cuh"
#include "engine/kernels/cuda/latent/latent_blocks.hpp"

namespace rigcast::engine::cuda {

inline constexpr int kLatentWarps = 4;
inline constexpr int kLatentThreads = 32 * kLatentWarps;
static_assert(kLatentTile == 8 * kLatentWarps, "a warp scores eight tokens");

// Halves between rows in shared memory: an odd number of 16-byte chunks, so that eight rows read at
// one column touch every bank once.
__host__ __device__ constexpr int latent_stride(int row) { return row + 8; }
inline constexpr int kWeightStride = kLatentTile + 8;

// Where a block keeps what.
struct LatentShared {
  __half *queries, *weights, *tiles;
  float* maxima;  // [warp][row]
  int stride;

  __device__ LatentShared(std::byte* at, int row) : stride(latent_stride(row)) {
    queries = reinterpret_cast<__half*>(at);
    weights = queries + kLatentHeads * stride;
    maxima = reinterpret_cast<float*>(weights + kLatentHeads * kWeightStride);
    tiles = reinterpret_cast<__half*>(maxima + kLatentWarps * kLatentHeads);
  }
  __device__ __half* tile(int stage) const { return tiles + stage * kLatentTile * stride; }
};
inline std::size_t latent_shared_bytes(int row, int stages) {
  const int stride = latent_stride(row);
  return std::size_t(
      2 * (kLatentHeads * stride + kLatentHeads * kWeightStride + stages * kLatentTile * stride) +
      4 * kLatentWarps * kLatentHeads);
}

// Starts to copy tokens [token, token + kLatentTile) to a stage; those from `end` on become zeros.
// Rows that are not F16 are converted, and have arrived when this returns.
template <bool kDirect>
__device__ __forceinline__ void start_tile(const HeadRows& rows, int row, int token, int end,
                                           __half* to, int stride) {
  const int lane = int(threadIdx.x) % 32, warp = int(threadIdx.x) / 32;
  for (int r = warp; r < kLatentTile; r += kLatentWarps) {
    const bool there = token + r < end;
    const Bytes from = rows.row(there ? token + r : token);
    for (int chunk = lane; chunk < row / 8; chunk += 32) {
      __half* const at = to + r * stride + chunk * 8;
      if constexpr (kDirect)
        copy_async_or_zero(shared_address(at), from + (there ? chunk * 16 : 0), there);
      else
        *reinterpret_cast<uint4*>(at) = there ? piece_of_row(rows.type, from, chunk) : uint4{};
    }
  }
}

// Two steps of 16 elements each, into sums of their own.
__device__ __forceinline__ void score_two(std::uint32_t q, std::uint32_t k, float (&even)[4],
                                          float (&odd)[4]) {
  std::uint32_t a[4], next[4], b[4];
  load_tiles(a, q);
  load_tiles(next, q + 32);
  load_tiles(b, k);
  multiply_add(even, a, b[0], b[1]);
  multiply_add(odd, next, b[2], b[3]);
}

// Scores of the warp's eight tokens: rows lane / 4 and lane / 4 + 8, tokens 2 (lane % 4) and the
// next. Four sums: a single chain of products would stall on its latency.
__device__ __forceinline__ void score_latent(const LatentShared& s, const __half* tile, int row,
                                             int warp, int lane, float (&out)[4]) {
  const std::uint32_t q = shared_address(s.queries + lane % 16 * s.stride + lane / 16 * 8);
  const std::uint32_t k = shared_address(tile + (warp * 8 + lane % 8) * s.stride + lane / 8 * 8);
  float sums[4][4] = {};
  const unsigned bytes = unsigned(row) * 2;  // a multiple of 64
  unsigned at = 0;
#pragma unroll 3
  for (; at + 64 < bytes; at += 128) {
    score_two(q + at, k + at, sums[0], sums[1]);
    score_two(q + at + 64, k + at + 64, sums[2], sums[3]);
  }
  if (at < bytes) score_two(q + at, k + at, sums[0], sums[1]);
#pragma unroll
  for (int i = 0; i < 4; ++i) out[i] = (sums[0][i] + sums[1][i]) + (sums[2][i] + sums[3][i]);
}

// o += weights times the values of the tile: columns [first, first + columns) of the warp.
template <int kColumns>
__device__ __forceinline__ void mix_latent(const LatentShared& s, const __half* tile, int first,
                                           int columns, int lane, float (&o)[kColumns / 8][4]) {
  const std::uint32_t p = shared_address(s.weights + lane % 16 * kWeightStride + lane / 16 * 8);
#pragma unroll
  for (int step = 0; step < kLatentTile / 16; ++step) {
    std::uint32_t a[4];
    load_tiles(a, p + unsigned(step * 32));
    const std::uint32_t v =
        shared_address(tile + (step * 16 + lane % 16) * s.stride + first + lane / 16 * 8);
#pragma unroll
    for (int d = 0; d < kColumns / 16; ++d) {
      if (d * 16 >= columns) break;
      std::uint32_t b[4];
      load_tiles_transposed(b, v + unsigned(d * 32));
      multiply_add(o[2 * d], a, b[0], b[1]);
      multiply_add(o[2 * d + 1], a, b[2], b[3]);
    }
  }
}

}  // namespace rigcast::engine::cuda
