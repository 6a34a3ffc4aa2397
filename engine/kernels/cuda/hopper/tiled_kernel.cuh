#pragma once
// Device code: a cluster of thread blocks multiplies 128 rows of weights with up to 256 tokens.
// Each block has a part of the columns; each of its 8 warps has 16 rows.

#include "engine/cuda/launch.cuh"
#include "engine/kernels/cuda/hopper/lane_weights.cuh"
#include "engine/kernels/cuda/hopper/tensor_memory.cuh"
#include "engine/kernels/cuda/hopper/tiled_work.cuh"

namespace rigcast::engine::cuda {

/// The rows that each block of a cluster adds up: whole fours. Those of a token are so far apart in
/// shared memory, an odd number of fours, that a warp's stores do not meet in banks.
__host__ __device__ constexpr int rows_of_share(int cluster) {
  return (kTiledRows / 4 + cluster - 1) / cluster * 4;
}
__host__ __device__ constexpr int share_stride(int cluster) { return rows_of_share(cluster) | 4; }
inline constexpr int kMaxSumRows = 6 * share_stride(6);  // the most of all sizes of clusters

// Activations that a block holds in shared memory: a ring of stages of some columns.
template <int kTokens>
struct TiledRing {
  static constexpr bool kAsync = kTokens >= 32;  // four warps read the activations once
  static constexpr int kStages = kTokens <= 16 ? 6 : kTokens == 32 ? 16 : kTokens == 64 ? 12 : 6;
  static constexpr int kStageColumns = kAsync ? 64 : kTileColumns;
  static constexpr int kStageSteps = kStageColumns / 16;
  static constexpr int kStagesOfTile = kTileColumns / kStageColumns;
  static constexpr int kStageBytes = kStageColumns * kTokens * 2;
  static constexpr int kBytes = kStages * kStageBytes;
  // The sums that a block of a cluster gets from all, which are written over the stages.
  static_assert(kTokens * kMaxSumRows * 4 <= kBytes);
};

#if RIGCAST_HOPPER_CODE

// The ring of activations. One thread begins the copies; all warps wait for them, and say when they
// have done with a stage.
template <int kTokens>
class InputRing {
  using Ring = TiledRing<kTokens>;

 public:
  // Called by all threads; `count`: stages in all.
  __device__ InputRing(std::byte* shared, std::uint64_t* barriers, const std::byte* from, int count)
      : stages_(shared_address(shared)),
        full_(shared_address(barriers)),
        empty_(full_ + 8 * Ring::kStages),
        from_(from),
        left_(count) {
    if (threadIdx.x == 0) {
      for (int i = 0; i < Ring::kStages; ++i) {
        init_barrier(full_ + 8 * i, 1);
        init_barrier(empty_ + 8 * i, kTiledWarps);
      }
      publish_barriers();
    }
    __syncthreads();
  }
  // Begins the first copies; the last stage stays free until the first is released.
  __device__ __forceinline__ void begin() {
    if (threadIdx.x == 0)
      for (int i = 0; i < Ring::kStages - 1; ++i) copy();
    __syncwarp();
  }
  /// Waits for the next stage, and returns its address.
  __device__ __forceinline__ std::uint32_t next() {
    await(full_ + 8 * slot_, parity_);
    const std::uint32_t stage = stages_ + slot_ * Ring::kStageBytes;
    if (++slot_ == Ring::kStages) slot_ = 0, parity_ ^= 1;
    return stage;
  }
  /// This warp has read the first stage of those that next() returned and that are not released.
  __device__ __forceinline__ void release() {
    __syncwarp();
    if (threadIdx.x % 32 == 0) arrive(empty_ + 8 * held_);
    if (threadIdx.x == 0) copy();
    __syncwarp();
    if (++held_ == Ring::kStages) held_ = 0;
  }

 private:
  __device__ __forceinline__ void copy() {
    if (left_ == 0) return;
    await(empty_ + 8 * copy_slot_, copy_parity_);
    const std::uint32_t full = full_ + 8 * copy_slot_;
    expect_copies(full, Ring::kStageBytes);
    bulk_copy(stages_ + copy_slot_ * Ring::kStageBytes, from_, Ring::kStageBytes, full);
    from_ += Ring::kStageBytes, --left_;
    if (++copy_slot_ == Ring::kStages) copy_slot_ = 0, copy_parity_ ^= 1;
  }

  std::uint32_t stages_, full_, empty_;
  std::uint32_t slot_ = 0, parity_ = 0, held_ = 0, copy_slot_ = 0, copy_parity_ = 1;
  const std::byte* from_;
  int left_;
};

template <int kTokens>
using LaneSums = float[kTokens / 2];  // [8 tokens][row of the lane][token 2 t or 2 t + 1]

// Adds the products of a warp's 16 rows with the next 256 columns. `refill(u)` is called once the
// lane's weights of unit u are no longer needed. `first`: no stage is held.
template <QuantFormat F, int kTokens, class Refill>
__device__ __forceinline__ void add_block(const LaneWeights<F>& weights,
                                          const UnitFactors (&factors)[2][2],
                                          InputRing<kTokens>& ring, bool first,
                                          std::uint32_t bits_1024, const Refill& refill,
                                          LaneSums<kTokens>& sums) {
  using Ring = TiledRing<kTokens>;
  [[maybe_unused]] const int lane = threadIdx.x % 32;
  StepWeights w[2][2];  // two pairs of steps: one is converted while the other is multiplied
  std::uint32_t stage = 0;
#pragma unroll
  for (int u = 0; u < 2; ++u) {
#pragma unroll
    for (int word = 0; word < 4; ++word) {
      StepWeights(&steps)[2] = w[word % 2];
      weights.convert(u, word, factors[u], bits_1024, steps);
      const int step = (u * 8 + 2 * word) % Ring::kStageSteps;  // of the stage
      if (step == 0) stage = ring.next();
      const std::uint32_t at = stage + step * (32 * kTokens);
      if constexpr (Ring::kAsync) {
        hold(sums);
        begin_products();
        multiply_async<kTokens>(sums, steps[0], inputs_at(at, 16 * kTokens));
        multiply_async<kTokens>(sums, steps[1], inputs_at(at + 32 * kTokens, 16 * kTokens));
        commit_products();
        wait_for_products<1>();  // of the steps before these
        if (step == 0 && !(first && u == 0 && word == 0)) ring.release();
      } else {
#pragma unroll
        for (int eight = 0; eight < kTokens / 8; ++eight) {
          std::uint32_t x[4];
          load_matrices(x, at + lane / 8 * (16 * kTokens) + lane % 8 * 16 + eight * 128);
          warp_multiply(sums + 4 * eight, steps[0], x[0], x[1]);
          warp_multiply(sums + 4 * eight, steps[1], x[2], x[3]);
        }
        if (step + 2 == Ring::kStageSteps) ring.release();
      }
    }
    refill(u);
  }
}

// Adds blocks [0, count) of 256 columns from `source` on. Weights are loaded some blocks ahead, the
// first before the previous kernel has ended.
template <QuantFormat F, int kTokens>
__device__ __forceinline__ void add_blocks(const typename LaneWeights<F>::Source& source, int count,
                                           InputRing<kTokens>& ring, LaneSums<kTokens>& sums) {
  // Sums of many tokens leave registers for one block; it takes longer to multiply, too.
  constexpr int kAhead = kTokens > 64 ? 1 : LaneWeights<F>::kAhead;
  const int t = threadIdx.x % 4;
  LaneWeights<F> ahead[kAhead];
#pragma unroll
  for (int i = 0; i < kAhead; ++i) {
    const int block = min(i, count - 1);
    ahead[i].load_scales(source, block);
    ahead[i].load_unit(source, block, 0);
    ahead[i].load_unit(source, block, 1);
  }
  wait_for_inputs();
  ring.begin();
  const std::uint32_t bits_1024 = opaque_1024();
  for (int first = 0; first < count; first += kAhead) {
#pragma unroll
    for (int i = 0; i < kAhead; ++i) {
      const int block = first + i;
      if (block >= count) break;
      LaneWeights<F>& weights = ahead[i];
      UnitFactors factors[2][2];
      weights.factors(t, factors);
      // Past the last block: loaded once more, and not used.
      const int next = min(block + kAhead, count - 1);
      weights.load_scales(source, next);
      add_block<F, kTokens>(
          weights, factors, ring, block == 0, bits_1024,
          [&](int u) { weights.load_unit(source, next, u); }, sums);
    }
  }
  if constexpr (TiledRing<kTokens>::kAsync) {
    wait_for_products<0>();
    hold(sums);
  }
}

// To 2^-17 or better where the result is not 0 in F16, which keeps less.
__device__ __forceinline__ float gate_of(float x, GateFunction function) {
  return __fdividef(x, 1 + __expf(-gate_exponent(x, function)));
}

// Clamps to the range of F16, as the elementwise kernels do.
__device__ __forceinline__ __half half_in_range(float x) {
  constexpr float kMax = 65504.0f;  // comparisons leave NaN as it is
  return __float2half_rn(x > kMax ? kMax : x < -kMax ? -kMax : x);
}

// The token of a lane's sum `i`.
__device__ __forceinline__ int token_of_sum(int i) {
  return i / 4 * 8 + int(threadIdx.x) % 4 * 2 + i % 2;
}

// What a block computes: a tile of rows, for all tokens or for an expert's group of them.
struct BlockTask {
  TiledPart part;
  std::int64_t first_row = 0;
  int tokens = 0;  // from first_token on
  int first_token = 0;
  const int* choices = nullptr;  // the group's rows of the output; null: as tokens
  int group = 0;                 // its index among those of the launch, or of tiles of tokens
  int expert = 0;

  __device__ __forceinline__ std::int64_t out_row(int token) const {
    return choices ? __ldcg(choices + token) : first_token + token;
  }
};

// By value: kernel parameters are not indexed.
__device__ __forceinline__ TiledPart part_of_tile(const TiledWork& work, int tile) {
  TiledPart part = work.parts[0];
#pragma unroll
  for (int i = 1; i < int(kMaxJobs); ++i)
    if (i < work.part_count && tile >= work.parts[i].first_tile) part = work.parts[i];
  return part;
}

// Tiles of tokens that have the same weights are neighbours. False: the block has nothing to do.
template <int kTokens>
__device__ __forceinline__ bool find_task(const TiledWork& work, BlockTask& task) {
  const int at = int(blockIdx.x) / work.cluster, tile = at / work.token_tiles;
  task.group = at - tile * work.token_tiles;
  task.first_token = task.group * kTokens;
  task.tokens = min(work.tokens - task.first_token, kTokens);
  if (work.groups) {
    wait_for_inputs();  // which weights are read depends on them
    task.group = int(blockIdx.y);
    const int group = work.first_group + task.group;
    if (group >= __ldcg(work.group_count)) return false;
    const int* const from = &work.groups[group].expert;
    task.expert = __ldcg(from);
    task.choices = work.order + __ldcg(from + 1);
    task.tokens = __ldcg(from + 2);
  }
  task.part = work.ffn_hidden ? work.parts[0] : part_of_tile(work, tile);
  task.first_row = std::int64_t(tile - task.part.first_tile) * kTiledRows;
  if (task.part.bias) task.part.bias += task.expert * task.part.rows;
  return true;
}

__device__ __forceinline__ SoaView of_expert(const TiledPart& part, int expert) {
  const std::size_t at = std::size_t(expert) * part.expert_stride;
  const auto moved = [&](const std::uint8_t* p) { return p ? p + at : nullptr; };
  return {moved(part.view.codes), moved(part.view.high), moved(part.view.fields),
          moved(part.view.scales)};
}

// The first of the eight rows of gate and of up that a warp multiplies: those of which a token's
// results lie side by side when they are tiled.
__device__ __forceinline__ std::int64_t hidden_row(const BlockTask& task) {
  const int tile = int(task.first_row / kTiledRows), run = threadIdx.x / 32;
  return tile / 2 * 128 + tile % 2 * 16 + run / 2 * 4 + run % 2;
}

// A lane's row `i` of two, of a warp's 16: eight rows apart, or a row of gate and the same of up.
// Rows past the last repeat it; their sums are not written.
__device__ __forceinline__ std::int64_t lane_row(const TiledWork& work, const BlockTask& task,
                                                 int i) {
  const int warp = threadIdx.x / 32, g = threadIdx.x % 32 / 4;
  return work.ffn_hidden ? hidden_row(task) + g / 2 * 32 + g % 2 * 2
                         : task.first_row + warp * 16 + i * 8 + g;
}
__device__ __forceinline__ RowAt row_to_read(const TiledWork& work, const BlockTask& task, int i) {
  const bool up = work.ffn_hidden && i == 1;
  return {of_expert(up ? work.parts[1] : task.part, task.expert),
          min(lane_row(work, task, i), task.part.rows - 1), work.units};
}

__device__ __forceinline__ void write_sum(const TiledWork& work, const BlockTask& task,
                                          std::int64_t row, int token, float value) {
  if (row >= task.part.rows || token >= task.tokens) return;
  if (task.part.bias) value += task.part.bias[row];
  float* const to = task.part.out + task.out_row(token) * work.stride + row;
  if (work.add)
    add_to_memory(to, value);
  else
    *to = value;
}

// Four rows of a token.
__device__ __forceinline__ void write_sums(const TiledWork& work, const BlockTask& task,
                                           std::int64_t row, int token, const float4& sums) {
  if (!work.by_four || task.part.bias || row + 4 > task.part.rows) {
    const float values[4] = {sums.x, sums.y, sums.z, sums.w};
#pragma unroll
    for (int i = 0; i < 4; ++i) write_sum(work, task, row + i, token, values[i]);
    return;
  }
  float* const to = task.part.out + task.out_row(token) * work.stride + row;
  if (work.add)
    add_to_memory(to, sums);
  else
    *reinterpret_cast<float4*>(to) = sums;
}

// Sums over the cluster in the order of its blocks. Each block adds up and writes a share of the
// rows, and gets all blocks' sums of these: [block][token][row].
template <int kTokens>
__device__ __forceinline__ void write_cluster_sums(std::byte* shared, const TiledWork& work,
                                                   const BlockTask& task,
                                                   const LaneSums<kTokens>& sums) {
  const int share = rows_of_share(work.cluster), stride = share_stride(work.cluster);
  const int rank = int(cluster_rank()), row0 = threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4;
  arrive_at_cluster();
  await_cluster();  // all blocks have read their stages
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int row = row0 + half * 8;
    const int at = (rank * kTokens + token_of_sum(0)) * stride + row % share;
    const std::uint32_t to = address_in_block(shared_address(shared) + at * 4, row / share);
#pragma unroll
    for (int i = 0; i < kTokens / 2; ++i)
      if (i % 4 / 2 == half) store_in_cluster(to + (i / 4 * 8 + i % 2) * stride * 4, sums[i]);
  }
  arrive_at_cluster();
  await_cluster();
  const int fours = share / 4;
  for (int i = threadIdx.x; i < task.tokens * fours; i += 32 * kTiledWarps) {
    const int token = i / fours, row = rank * share + i % fours * 4;
    if (row >= kTiledRows) continue;  // the last share may be smaller
    const auto sums_of = [&](int block) {
      const int at = (block * kTokens + token) * stride + i % fours * 4;
      return *reinterpret_cast<const float4*>(shared + at * 4);
    };
    float4 sum = sums_of(0);
    for (int block = 1; block < work.cluster; ++block) {
      const float4 more = sums_of(block);
      sum = {sum.x + more.x, sum.y + more.y, sum.z + more.z, sum.w + more.w};
    }
    write_sums(work, task, task.first_row + row, token, sum);
  }
}

// Transposes a warp's matrix of 8 x 8 F16.
__device__ __forceinline__ std::uint32_t transposed(std::uint32_t pair) {
  std::uint32_t to;
  asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(to) : "r"(pair));
  return to;
}

// A token's results of a warp are 16 bytes, tiled, and those of the next token follow.
template <int kTokens>
__device__ __forceinline__ void write_hidden(const TiledWork& work, const BlockTask& task,
                                             const LaneSums<kTokens>& sums) {
  const std::int64_t row = lane_row(work, task, 0), rows = task.part.rows;
  const std::int64_t padded = tiled_columns(rows), first = hidden_row(task);
  if (first >= padded) return;
  float gate_bias = 0, up_bias = 0;
  if (task.part.bias && row < rows) {
    gate_bias = task.part.bias[row];
    up_bias = work.parts[1].bias[task.expert * rows + row];
  }
  const auto hidden = [&](float gate, float up) {
    const GateAndUp in = as_taken(gate + gate_bias, up + up_bias, work.function);
    return row < rows ? half_in_range(gate_of(in.gate, work.function) * in.up) : __half(0);
  };
  const int lane = threadIdx.x % 32, token = lane / 4;
  __half* const to = work.ffn_hidden + task.group * padded * kTokens +
                     tiled_index(first, token, kTokens) + lane % 4 * 2;
#pragma unroll
  for (int eight = 0; eight < kTokens / 8; ++eight) {
    const float* const own = sums + 4 * eight;  // gate and up, of two tokens each
    const __half2 pair(hidden(own[0], own[2]), hidden(own[1], own[3]));
    const std::uint32_t of_token = transposed(as_word(pair));
    if (eight * 8 + token < task.tokens)
      *reinterpret_cast<std::uint32_t*>(to + eight * 64) = of_token;
  }
}

// The columns of this block: blocks of 256, as evenly as possible.
struct ColumnShare {
  int first, count;
};
__device__ __forceinline__ ColumnShare share_of(const TiledWork& work) {
  const int rank = work.cluster == 1 ? 0 : int(cluster_rank());
  const int first = work.blocks * rank / work.cluster;
  return {first, work.blocks * (rank + 1) / work.cluster - first};
}

template <QuantFormat F, int kTokens>
__device__ __forceinline__ void multiply(std::byte* shared, std::uint64_t* barriers,
                                         const TiledWork& work, const BlockTask& task) {
  const ColumnShare columns = share_of(work);
  const typename LaneWeights<F>::Source source(
      row_to_read(work, task, 0), row_to_read(work, task, 1), columns.first, threadIdx.x % 4);
  const std::int64_t stage = std::int64_t(task.group) * work.blocks + columns.first;
  using Ring = TiledRing<kTokens>;
  InputRing<kTokens> ring(
      shared, barriers,
      reinterpret_cast<const std::byte*>(work.x) + stage * Ring::kStagesOfTile * Ring::kStageBytes,
      columns.count * Ring::kStagesOfTile);
  LaneSums<kTokens> sums = {};
  add_blocks<F, kTokens>(source, columns.count, ring, sums);
  if (work.ffn_hidden) return write_hidden<kTokens>(work, task, sums);
  if (work.cluster > 1) return write_cluster_sums<kTokens>(shared, work, task, sums);
#pragma unroll
  for (int i = 0; i < kTokens / 2; ++i)
    write_sum(work, task, lane_row(work, task, i % 4 / 2), token_of_sum(i), sums[i]);
}

#endif  // RIGCAST_HOPPER_CODE

// Blocks that a multiprocessor runs: two, where the registers of both hold weights and sums. Those
// of Q6_K and Q8_0 with 128 tokens spilled.
template <QuantFormat F, QuantFormat G, int kTokens>
inline constexpr int kTiledBlocks = kTokens > 128 || (kTokens == 128 &&
                                                      (LaneFormat<G>::kSix || LaneFormat<F>::kSix ||
                                                       LaneFormat<F>::kEight))
                                        ? 1
                                        : 2;

template <QuantFormat F, QuantFormat G, int kTokens>
__global__ void __launch_bounds__(32 * kTiledWarps, kTiledBlocks<F, G, kTokens>)
    tiled_kernel([[maybe_unused]] const __grid_constant__ TiledWork work) {
#if RIGCAST_HOPPER_CODE
  extern __shared__ __align__(128) std::byte shared[];
  using Ring = TiledRing<kTokens>;
  __shared__ __align__(8) std::uint64_t barriers[2 * Ring::kStages];
  allow_next_kernel();
  BlockTask task;
  if (!find_task<kTokens>(work, task)) return;
  if (F == G || !task.part.second)
    multiply<F, kTokens>(shared, barriers, work, task);
  else
    multiply<G, kTokens>(shared, barriers, work, task);
#else
  __trap();  // has_tiled_gemm() says no
#endif
}

}  // namespace rigcast::engine::cuda
