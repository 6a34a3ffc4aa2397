#pragma once
// Device code: a thread block attends to one split of a context, for up to 16 query heads that
// share the keys and values of one head.

#include <algorithm>

#include "engine/kernels/cuda/attention/decode_tiles.cuh"
#include "engine/kernels/cuda/attention/merge_partials.cuh"

namespace rigcast::engine::cuda {

// At most; each computes every kSplitWarps-th tile of a split. A multiprocessor has memory for one
// block of wide heads.
template <int kDim, bool kDirect>
inline constexpr int kSplitWarps = kDim > 128 && kDirect ? 6 : 4;

// Starts to copy the warp's first tiles, before there are queries to multiply them with.
template <int kDim, bool kDirect>
__device__ void start_split(const Ring<kDim, kDirect>& ring, const TokenSpan& span, int first,
                            int warps) {
#pragma unroll 1
  for (int i = 0; i < kStages<kDim, kDirect> - 1; ++i) {
    const int tile = first + i * warps;
    if (tile < span.end) ring.start(tile, i, span);
    commit_copies();
  }
}

// Computes the warp's tiles, each a few steps after its copy was started.
template <int kDim, bool kDirect>
__device__ void attend_split(const Ring<kDim, kDirect>& ring, const TokenSpan& span, int first,
                             int warps, const NewRows& newest, const Queries<kDim, kDirect>& q,
                             const SoftCap& cap, SoftmaxAccumulator<kValueDim<kDim>>& mix) {
  constexpr int kAll = kStages<kDim, kDirect>;
  int stage = 0;
  for (int tile = first; tile < span.end; tile += warps) {
    const int next = tile + (kAll - 1) * warps;
    if (next < span.end) ring.start(next, (stage + kAll - 1) % kAll, span);
    commit_copies();
    wait_for_copies<kAll - 1>();
    __syncwarp();
    attend_tile(ring, tile, stage, span, newest, q, cap, mix);
    __syncwarp();
    stage = (stage + 1) % kAll;
  }
  wait_for_copies<0>();
}

// Every warp's accumulator in shared memory, for the block to merge. Of functions below, kDim is
// the elements of values that a block sums up.
template <int kDim>
struct Shared {
  float o[kGroupRows][kDim + 8];  // with this width, the lanes of a warp touch every bank once
};

// Writes two neighbouring values of a product, or of four products that share a block's columns.
template <bool kDirect>
__device__ __forceinline__ void put(const float (*o)[4], int first, float* to) {
  if constexpr (kDirect) {
    *reinterpret_cast<float2*>(to) = make_float2(o[0][first], o[0][first + 1]);
  } else {
#pragma unroll
    for (int k = 0; k < 2; ++k)
      reinterpret_cast<float4*>(to)[k] =
          make_float4(o[0][first + k], o[1][first + k], o[2][first + k], o[3][first + k]);
  }
}

// Shows the first `rows` rows of the warp's accumulator.
template <int kDim, bool kDirect>
__device__ __forceinline__ void show(const SoftmaxAccumulator<kDim>& mix, int lane, int rows,
                                     Shared<kDim>& to, float2 (&m)[kGroupRows]) {
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    if (8 * h >= rows) break;
    const int row = lane / 4 + 8 * h;
    const float l = row_sum(mix.l[h]);
    if (lane % 4 == 0) m[row] = make_float2(mix.m[h], l);
    float* const out = to.o[row] + lane % 4 * (kDirect ? 2 : 8);
#pragma unroll
    for (int d = 0; d < kDim / 8; d += kDirect ? 1 : 4) put<kDirect>(mix.o + d, 2 * h, out + d * 8);
  }
}

// Merges the warps' accumulators, at most kWarps: write(row, column, largest, l, o) gets each four
// columns of each head.
template <int kDim, int kWarps, class Write>
__device__ __forceinline__ void merge_warps(const Shared<kDim>* mixes, int mix_bytes,
                                            const float2 (*m)[kGroupRows], int warps, int rows,
                                            const Write& write) {
  constexpr int kFours = kDim / 4;
#pragma unroll 1
  for (int i = int(threadIdx.x); i < rows * kFours; i += int(blockDim.x)) {
    const int row = i / kFours, column = i % kFours * 4;
    float2 sums[kWarps];
    float4 values[kWarps];
#pragma unroll
    for (int w = 0; w < kWarps; ++w) {
      sums[w] = make_float2(-INFINITY, 0), values[w] = make_float4(0, 0, 0, 0);
      if (w >= warps) continue;
      const auto* mix = reinterpret_cast<const Shared<kDim>*>(
          reinterpret_cast<const std::byte*>(mixes) + w * mix_bytes);
      sums[w] = m[w][row];
      values[w] = *reinterpret_cast<const float4*>(mix->o[row] + column);
    }
    float largest = -INFINITY, l = 0;
    float4 o = make_float4(0, 0, 0, 0);
#pragma unroll
    for (int w = 0; w < kWarps; ++w) largest = fmaxf(largest, sums[w].x);
#pragma unroll
    for (int w = 0; w < kWarps; ++w) {
      const float scale = sums[w].x == -INFINITY ? 0 : power_of_2(sums[w].x - largest);
      l += scale * sums[w].y;
      o.x += scale * values[w].x, o.y += scale * values[w].y;
      o.z += scale * values[w].z, o.w += scale * values[w].w;
    }
    write(row, column, largest, l, o);
  }
}

// Merges the warps' accumulators into rows `at`, at + 1, ... of the partial results: elements from
// `first` on of heads of `dim`.
template <int kDim, int kWarps>
__device__ __forceinline__ void write_partial(int dim, int first, const Shared<kDim>* mixes,
                                              int mix_bytes, const float2 (*m)[kGroupRows],
                                              int warps, int rows, std::int64_t at,
                                              const Partials& out) {
  merge_warps<kDim, kWarps>(
      mixes, mix_bytes, m, warps, rows,
      [&](int row, int column, float largest, float l, const float4& o) {
        if (first + column == 0) out.m[at + row] = largest, out.l[at + row] = l;
        if (first + column < dim)
          *reinterpret_cast<float4*>(out.o + (at + row) * dim + first + column) = o;
      });
}

// Bytes of a stage of a warp's ring buffer. Words are read in pairs, including the last one of a
// tile: 4 bytes more. The accumulators reuse the ring buffer's memory at the end; 2 KiB of a stage
// have room for heads of a new token (decode_attention.cu).
template <int kDim, bool kDirect>
int split_stage_bytes(const Cache& cache) {
  const int bytes =
      kDirect ? Ring<kDim, true>::kStageBytes : kTileRows * (cache.k_row + cache.v_row) + 4;
  constexpr int kAll = kStages<kDim, kDirect>;
  const int least = std::max((int(sizeof(Shared<kValueDim<kDim>>)) + kAll - 1) / kAll, 2048);
  return (std::max(bytes, least) + 15) / 16 * 16;
}

}  // namespace rigcast::engine::cuda
