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
#pragma unroll
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

template <int kDim, bool kDirect>
__device__ void show(const SoftmaxAccumulator<kDim>& mix, int lane, Shared<kDim>& to,
                     float (*m)[2]) {
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const int row = lane / 4 + 8 * h;
    const float l = row_sum(mix.l[h]);
    if (lane % 4 == 0) m[row][0] = mix.m[h], m[row][1] = l;
    float* const out = to.o[row] + lane % 4 * (kDirect ? 2 : 8);
#pragma unroll
    for (int d = 0; d < kDim / 8; d += kDirect ? 1 : 4) put<kDirect>(mix.o + d, 2 * h, out + d * 8);
  }
}

// Merges the warps' accumulators: write(row, column, largest, l, o) gets each column of each head.
template <int kDim, class Write>
__device__ void merge_warps(const Shared<kDim>* mixes, int mix_bytes,
                            const float (*m)[kGroupRows][2], int warps, int rows,
                            const Write& write) {
  for (int i = int(threadIdx.x); i < rows * kDim; i += int(blockDim.x)) {
    const int row = i / kDim, column = i % kDim;
    float largest = -INFINITY, l = 0, o = 0;
    for (int w = 0; w < warps; ++w) largest = fmaxf(largest, m[w][row][0]);
    for (int w = 0; w < warps; ++w) {
      const auto* mix = reinterpret_cast<const Shared<kDim>*>(
          reinterpret_cast<const std::byte*>(mixes) + w * mix_bytes);
      const float scale = m[w][row][0] == -INFINITY ? 0 : power_of_2(m[w][row][0] - largest);
      l += scale * m[w][row][1];
      o += scale * mix->o[row][column];
    }
    write(row, column, largest, l, o);
  }
}

// Merges the warps' accumulators into rows `at`, at + 1, ... of the partial results: elements from
// `first` on of heads of `dim`.
template <int kDim>
__device__ void write_partial(int dim, int first, const Shared<kDim>* mixes, int mix_bytes,
                              const float (*m)[kGroupRows][2], int warps, int rows, std::int64_t at,
                              const Partials& out) {
  merge_warps(mixes, mix_bytes, m, warps, rows,
              [&](int row, int column, float largest, float l, float o) {
                if (first + column == 0) out.m[at + row] = largest, out.l[at + row] = l;
                if (first + column < dim && largest != -INFINITY)
                  out.o[(at + row) * dim + first + column] = o;
              });
}

// Bytes of a stage of a warp's ring buffer. Words are read in pairs, including the last one of a
// tile: 4 bytes more. The accumulators reuse the ring buffer's memory at the end.
template <int kDim, bool kDirect>
int split_stage_bytes(const Cache& cache) {
  const int bytes =
      kDirect ? Ring<kDim, true>::kStageBytes : kTileRows * (cache.k_row + cache.v_row) + 4;
  constexpr int kAll = kStages<kDim, kDirect>;
  const int least = (int(sizeof(Shared<kValueDim<kDim>>)) + kAll - 1) / kAll;
  return (std::max(bytes, least) + 15) / 16 * 16;
}

}  // namespace rigcast::engine::cuda
