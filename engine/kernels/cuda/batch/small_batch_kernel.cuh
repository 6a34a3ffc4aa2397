#pragma once
// Device code: a thread block multiplies some rows of weights with up to 64 tokens.

#include "engine/cuda/launch.cuh"
#include "engine/kernels/cuda/activations/gate_function.cuh"
#include "engine/kernels/cuda/batch/experts_batch.cuh"
#include "engine/kernels/cuda/batch/input_tile.cuh"
#include "engine/kernels/cuda/batch/weight_tile_blocks.cuh"

namespace rigcast::engine::cuda {

inline constexpr int kSmallBatchWarps = 8;
inline constexpr int kSmallBatchThreads = 32 * kSmallBatchWarps;

struct SmallBatchPart {
  SoaView view;
  std::int64_t rows = 0;
  float* out = nullptr;
  const float* bias = nullptr;  // of all experts, one after the other
  int first_tile = 0;           // of the launch's tiles of rows
};

struct SmallBatchWork {
  SmallBatchPart parts[kMaxJobs];
  int part_count = 0;
  int units = 0;  // of a row
  const __half* x = nullptr;
  int tokens = 0;
  int row_warps = 0;
  std::int64_t stride = 0;  // of output rows
  bool add = false;
  // Gate and up: `gate` is the argument of `function`; results go to `ffn_hidden` instead of `out`.
  const float* gate = nullptr;
  GateFunction function = GateFunction::kSilu;
  __half* ffn_hidden = nullptr;
  // Experts: `groups` null: none. The row of x is choice / choices_of_row.
  const ExpertGroup* groups = nullptr;
  const int* group_count = nullptr;
  const int* order = nullptr;
  std::size_t expert_stride = 0;
  int choices_of_row = 1;
};

// Shared memory of a block: the ring buffers of stages, and scales in the weights' layout; later
// the sums of all warps, in the same memory.
template <QuantFormat F, int kTokens>
struct SmallBatchShape {
  using W = WeightTile<F>;
  using X = InputTile<kTokens>;
  static constexpr int kStages = kTokens == 64 ? 2 : 3;
  static constexpr int kScaleBytes = kTileUnits * kTileRows * int(sizeof(UnitScales));

  __host__ __device__ static constexpr int stage_bytes(int row_warps) {
    return X::kBytes + row_warps * W::kBytes;
  }
  __host__ __device__ static constexpr int ring_bytes(int row_warps) {
    return kStages * stage_bytes(row_warps);
  }
  // The distance between tokens: four rows more keep the lanes of a store in different banks.
  __host__ __device__ static constexpr int sums_stride(int row_warps) {
    return row_warps * kTileRows + 4;
  }
  static constexpr int shared_bytes(int row_warps) {
    const int splits = kSmallBatchWarps / row_warps;
    const int rings = splits * ring_bytes(row_warps) + kSmallBatchWarps * kScaleBytes;
    const int sums = splits * kTokens * sums_stride(row_warps) * 4;
    return rings > sums ? rings : sums;
  }
};

// Barrier of the `warps` warps that share columns; it has the number 1 + `id`.
__device__ __forceinline__ void barrier_sync(int id, int warps) {
  if (warps == 1) return __syncwarp();
  asm volatile("bar.sync %0, %1;" ::"r"(id + 1), "r"(warps * 32) : "memory");
}

// The rows of x and of the output for this block's tokens.
template <int kTokens>
struct BlockTokens {
  int x[kTokens], out[kTokens];
};

// A warp's part of a block: its rows, and every splits-th stage of the columns.
struct WarpShare {
  int row_warp, split, splits;
};

template <int kTokens>
using TokenSums = float[2][kTokens / 8][4];  // rows 0 to 15 and 16 to 31, in the layout of
                                             // multiply_add()

// Adds the products of unit `u` of a stage that begins at unit `first`, for all tokens below
// `count`.
template <QuantFormat F, int kTokens>
__device__ __forceinline__ void add_unit(const std::byte* inputs, const std::byte* weights,
                                         const UnitScales (*scales)[kTileRows], int first, int u,
                                         int count, TokenSums<kTokens>& sums) {
  using X = InputTile<kTokens>;
  const int lane = threadIdx.x % 32;
  Fp16Weights w[2][2];
  WeightTile<F>::load(weights, first, u, lane, scales, w);
#pragma unroll
  for (int pair = 0; pair < kTokens / 16; ++pair) {
    if (pair * 16 >= count) break;
    uint2 x[2][2];
#pragma unroll
    for (int i = 0; i < 4; ++i)
      x[i / 2][i % 2] = X::load(inputs, (2 * pair + i / 2) * 8, 2 * u + i % 2, lane);
#pragma unroll
    for (int k = 0; k < 2; ++k)
#pragma unroll
      for (int i = 0; i < 4; ++i)
        multiply_add(sums[i % 2][2 * pair + i / 2], w[i % 2][k], x[i / 2][k]);
  }
}

// Adds all stages of a warp. ready() is called once the copies of weights have started.
template <QuantFormat F, int kTokens, class Ready>
__device__ __forceinline__ void add_columns(std::byte* shared, const TileRows& rows,
                                            const SmallBatchWork& work, const WarpShare& share,
                                            const int* x_rows, int count, const Ready& ready,
                                            TokenSums<kTokens>& sums) {
  using Shape = SmallBatchShape<F, kTokens>;
  using W = typename Shape::W;
  using X = typename Shape::X;
  constexpr int kStages = Shape::kStages;
  const int lane = threadIdx.x % 32, warps = work.row_warps, units = work.units;
  const int stage_bytes = Shape::stage_bytes(warps);
  std::byte* const ring = shared + share.split * Shape::ring_bytes(warps);
  auto* const scales =
      reinterpret_cast<UnitScales(*)[kTileRows]>(shared + share.splits * Shape::ring_bytes(warps) +
                                                 int(threadIdx.x / 32) * Shape::kScaleBytes);
  const auto unit_of = [&](int i) { return (i * share.splits + share.split) * kTileUnits; };
  const auto weights_in = [&](int slot) {
    return ring + slot * stage_bytes + X::kBytes + share.row_warp * W::kBytes;
  };
  const auto fetch_weights = [&](int i, int slot) {
    if (unit_of(i) < units) W::fetch(weights_in(slot), rows, unit_of(i), lane);
  };
  const auto fetch_inputs = [&](int i, int slot) {
    if (unit_of(i) < units)
      X::fetch(ring + slot * stage_bytes, work.x, x_rows, count, units, unit_of(i),
               share.row_warp * 32 + lane, warps * 32);
  };
#pragma unroll
  for (int i = 0; i < kStages - 1; ++i) fetch_weights(i, i);
  ready();
#pragma unroll
  for (int i = 0; i < kStages - 1; ++i) {
    fetch_inputs(i, i);
    commit_group();
  }
  // All warps run the same number of rounds; the last round may have no stage for some.
  for (int i = 0, slot = 0; i * share.splits * kTileUnits < units; ++i) {
    wait_for_group<kStages - 2>();
    barrier_sync(share.split, warps);  // all copies have arrived, and the previous stage is no
                                       // longer in use
    const int next = slot == 0 ? kStages - 1 : slot - 1;
    fetch_weights(i + kStages - 1, next);
    fetch_inputs(i + kStages - 1, next);
    commit_group();
    if (unit_of(i) < units) {
      W::decode(weights_in(slot), unit_of(i), units, lane, scales);
      __syncwarp();
#pragma unroll(kTokens == 64 ? 1 : 2)
      for (int u = 0; u < kTileUnits; ++u)
        add_unit<F, kTokens>(ring + slot * stage_bytes, weights_in(slot), scales, unit_of(i), u,
                             count, sums);
    }
    slot = slot + 1 == kStages ? 0 : slot + 1;
  }
  wait_for_group<0>();
}

// Writes all warps' sums where the other warps read them: [split][token][row].
template <QuantFormat F, int kTokens>
__device__ __forceinline__ void share_sums(std::byte* shared, const SmallBatchWork& work,
                                           const WarpShare& share, const TokenSums<kTokens>& sums) {
  const int lane = threadIdx.x % 32;
  const int stride = SmallBatchShape<F, kTokens>::sums_stride(work.row_warps);
  auto* const all = reinterpret_cast<float*>(shared) + share.split * kTokens * stride +
                    share.row_warp * kTileRows;
#pragma unroll
  for (int m = 0; m < 2; ++m)
#pragma unroll
    for (int n = 0; n < kTokens / 8; ++n)
#pragma unroll
      for (int i = 0; i < 4; ++i)
        all[(8 * n + lane % 4 * 2 + i % 2) * stride + 16 * m + i / 2 * 8 + lane / 4] =
            sums[m][n][i];
}

__device__ __forceinline__ float gated(float x, GateFunction function) {
  return x / (1 + expf(-gate_exponent(x, function)));
}

// Clamps to the range of F16, as the elementwise kernels do.
__device__ __forceinline__ __half clamped_half(float x) {
  constexpr float kMax = 65504.0f;  // comparisons leave NaN as it is
  return __float2half_rn(x > kMax ? kMax : x < -kMax ? -kMax : x);
}

// Applies the bias, or gate and up, to a value, and writes it.
__device__ __forceinline__ void write_one(const SmallBatchWork& work, const SmallBatchPart& part,
                                          std::int64_t row, std::int64_t out_row, float value) {
  if (part.bias) value += part.bias[row];
  if (work.ffn_hidden) {
    const std::int64_t at = out_row * part.rows + row;
    const GateAndUp in = as_taken(__ldcg(work.gate + at), value, work.function);
    work.ffn_hidden[at] = clamped_half(in.up * gated(in.gate, work.function));
    return;
  }
  float* const to = part.out + out_row * work.stride + row;
  *to = work.add ? *to + value : value;
}

// Adds the sums of all splits in order, and writes the results: a warp has 32 rows and every
// splits-th token.
template <class Shape, int kTokens>
__device__ __forceinline__ void write_out(const std::byte* shared, const SmallBatchWork& work,
                                          const SmallBatchPart& part, std::int64_t first_row,
                                          const WarpShare& share, const int* out_rows, int count) {
  const int in_tile = share.row_warp * kTileRows + int(threadIdx.x % 32);
  const std::int64_t row = first_row + in_tile;
  if (row >= part.rows) return;
  const int stride = Shape::sums_stride(work.row_warps);
  const auto* const sums = reinterpret_cast<const float*>(shared) + in_tile;
#pragma unroll 2
  for (int token = share.split; token < count; token += share.splits) {
    float value = 0;
    for (int s = 0; s < share.splits; ++s) value += sums[(s * kTokens + token) * stride];
    write_one(work, part, row, out_rows[token], value);
  }
}

__device__ __forceinline__ SoaView moved(SoaView v, std::size_t by) {
  const auto moved_one = [&](const std::uint8_t* p) { return p ? p + by : nullptr; };
  return {moved_one(v.codes), moved_one(v.high), moved_one(v.fields), moved_one(v.scales)};
}

// The part of the launch to which a tile of rows belongs, by value: kernel parameters are not
// indexed.
__device__ __forceinline__ SmallBatchPart part_of(const SmallBatchWork& work, int tile) {
  SmallBatchPart part = work.parts[0];
#pragma unroll
  for (int i = 1; i < int(kMaxJobs); ++i)
    if (i < work.part_count && tile >= work.parts[i].first_tile) part = work.parts[i];
  return part;
}

template <QuantFormat F, int kTokens>
__device__ __forceinline__ void multiply_tile(const SmallBatchWork& work) {
  extern __shared__ __align__(128) std::byte shared[];
  __shared__ BlockTokens<kTokens> tokens;
  allow_next_kernel();
  ExpertGroup group;
  if (work.groups) {
    wait_for_inputs();
    if (int(blockIdx.y) >= __ldcg(work.group_count)) return;
    const int* from = &work.groups[blockIdx.y].expert;
    group = {__ldcg(from), __ldcg(from + 1), __ldcg(from + 2)};
  } else {
    group.first = int(blockIdx.x) * kTokens;
    group.count = min(kTokens, work.tokens - group.first);
  }
  if (int(threadIdx.x) < group.count) {
    const int at = group.first + int(threadIdx.x);
    const int choice = work.groups ? __ldcg(work.order + at) : at;
    tokens.x[threadIdx.x] = choice / work.choices_of_row;
    tokens.out[threadIdx.x] = choice;
  }
  __syncthreads();
  const int tile = int(work.groups ? blockIdx.x : blockIdx.y);
  SmallBatchPart part = part_of(work, tile);
  if (part.bias) part.bias += group.expert * part.rows;
  const std::int64_t first_row = std::int64_t(tile - part.first_tile) * work.row_warps * kTileRows;
  const int warp = threadIdx.x / 32;
  const int splits = kSmallBatchWarps / work.row_warps, split = warp / work.row_warps;
  const WarpShare share{warp % work.row_warps, split, splits};
  // A warp past the last row repeats the last rows.
  const auto row = min(first_row + share.row_warp * kTileRows,
                       (part.rows - 1) / kTileRows * std::int64_t(kTileRows));
  const TileRows rows{moved(part.view, std::size_t(group.expert) * work.expert_stride),
                      unsigned(row), unsigned(part.rows), unsigned(work.units)};
  TokenSums<kTokens> sums = {};
  add_columns<F, kTokens>(
      shared, rows, work, share, tokens.x, group.count, [] { wait_for_inputs(); }, sums);
  __syncthreads();
  share_sums<F, kTokens>(shared, work, share, sums);
  __syncthreads();
  write_out<SmallBatchShape<F, kTokens>, kTokens>(shared, work, part, first_row, share, tokens.out,
                                                  group.count);
}

template <QuantFormat F, int kTokens>
__global__ void __launch_bounds__(kSmallBatchThreads, 2)
    small_batch_kernel(const __grid_constant__ SmallBatchWork work) {
#if __CUDA_ARCH__ >= 800
  multiply_tile<F, kTokens>(work);
#else
  __trap();  // has_small_batch_gemm() says no
#endif
}

}  // namespace rigcast::engine::cuda
