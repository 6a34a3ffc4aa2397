#include "engine/kernels/cuda/attention/decode_attention.cuh"

#include <algorithm>
#include <climits>
#include <cmath>
#include <cstdlib>

#include "engine/cuda/launch.cuh"
#include "engine/kernels/cuda/attention/decode_split.cuh"
#include "engine/kernels/cuda/attention/last_block.cuh"
#include "engine/kernels/cuda/attention/most_splits.hpp"
#include "engine/kernels/cuda/kv/lane_heads.cuh"

namespace rigcast::engine::cuda {
namespace {

struct Task {
  NewTokenInputs inputs;
  float query_scale;
  int group, dim, window, layer, first_token;
  bool inputs_ready;
  Start start;
  SoftCap cap;
  MergedHeads merged;  // without `arrivals`: by another kernel
  int tiles;           // of a split, at most
  int stage_bytes;     // bytes of a stage of a warp's ring buffer
  int own_bytes;       // of a warp's shared memory
  int group_rows;      // query heads of a block, at most
};

// The block's results for the new token: the queries of its heads (zeros past the last head), and
// the rows of its keys and values.
template <int kDim>
struct NewToken {
  __align__(16) __half queries[kGroupRows][kTileStride<kDim>];
  __align__(16) std::byte key[2 * kDim], value[2 * kDim];
};

// Floats of a warp's shared memory in which it computes heads, the last ones of its own: of a full
// ring buffer, they are in the stage to which the first copy comes after that.
template <int kDim>
inline constexpr int kHeadFloats = HeadLanes<kDim>::kHeads* kDim;

// Computes them with all warps, several heads at once in each: `rows` queries of this block, then a
// key and a value if `keys`. Waits for the inputs.
template <int kDim, bool kDirect>
__device__ __forceinline__ void make_new_rows(const Task& t, const Cache& cache, int first,
                                              int rows, bool keys, int position, float* own,
                                              NewToken<kDim>& to) {
  using Lanes = HeadLanes<kDim>;
  const int lane = int(threadIdx.x) % 32, warp = int(threadIdx.x) / 32;
  const int warps = int(blockDim.x) / 32, count = rows + (keys ? 2 : 0);
  const int of_warp = lane / Lanes::kLanes, at_once = warps * Lanes::kHeads;
  const float query_scale = t.query_scale * t.inputs.temperature.at(position);
  LaneHead<kDim> head(t.inputs, t.dim, lane, own + of_warp * kDim);
#pragma unroll 1
  for (int base = 0; base == 0 || base + warp < count; base += at_once) {
    const int i = base + of_warp * warps + warp;
    const HeadKind kind = i < rows    ? HeadKind::kQuery
                          : i == rows ? HeadKind::kKey
                                      : HeadKind::kValue;
    const bool query = kind == HeadKind::kQuery, there = i < count;
    head.prepare(kind, query ? first + i : int(blockIdx.y));
    if (base == 0) wait_for_inputs();
    head.load(there);
    head.compute();
    if (there && (kDirect || query))
      head.put_fp16(query ? query_scale : 1.0f,
                    query ? to.queries[i]
                          : reinterpret_cast<__half*>(kind == HeadKind::kKey ? to.key : to.value));
    if constexpr (!kDirect) {
      head.show();
      __syncwarp();
#pragma unroll 1
      for (int j = 0; j < (keys ? 2 : 0); ++j) {
        const int at = rows + j - base;
        if (at >= 0 && at < at_once && at % warps == warp)
          put_row(j == 0 ? cache.k_type : cache.v_type, own + at / warps * kDim, t.dim,
                  j == 0 ? to.key : to.value, lane);
      }
    }
    __syncwarp();
  }
}

// Writes the new rows to the cache; one of the blocks that see the new token does so.
template <int kDim, bool kDirect>
__device__ __forceinline__ void store_new_rows(const NewToken<kDim>& from, const Cache& cache,
                                               int layer, int position) {
  const int head = int(blockIdx.y), block = position / cache.block_tokens;
  const int row = position - block * cache.block_tokens;
  std::byte* to = cache.blocks[block] + cache.keys_at(layer, head);
  const int thread = int(threadIdx.x), threads = int(blockDim.x);
  using T = RowPiece<kDirect>;
  copy_row<T>(from.key, to + row * cache.k_row, cache.k_row, thread, threads);
  to += std::int64_t(cache.block_tokens) * cache.k_row;
  copy_row<T>(from.value, to + row * cache.v_row, cache.v_row, thread, threads);
}

// Heads past the last one have queries of zeros.
template <int kDim>
__device__ __forceinline__ void clear_queries(NewToken<kDim>& of, int rows) {
  constexpr int kChunks = kTileStride<kDim> / 8;
#pragma unroll 1
  for (int i = rows * kChunks + int(threadIdx.x); i < kGroupRows * kChunks; i += int(blockDim.x))
    reinterpret_cast<uint4*>(of.queries)[i] = make_uint4(0, 0, 0, 0);
}

// Merges the partial results of the group of the block's heads, if it is the last one.
template <int kParts>
__device__ __forceinline__ void merge_if_last(const Task& t, const Partials& partials,
                                              int first_head, int rows, std::byte* shared) {
  const int groups = int(gridDim.z) / kParts, blocks = int(gridDim.x) * kParts;
  unsigned* const arrivals =
      t.merged.arrivals + int(blockIdx.y) * groups + int(blockIdx.z) / kParts;
  if (!arrives_last(arrivals, blocks)) return;
  const MergedGroup group{partials, int(gridDim.x), t.inputs.heads, t.dim, first_head, rows};
  auto* const weights = reinterpret_cast<float*>(shared);
  if (group.splits <= 8)
    merge_group<2, 8>(group, t.merged.sinks, weights, t.merged.out);
  else
    merge_group<1, 16>(group, t.merged.sinks, weights, t.merged.out);
}

// Blocks on a multiprocessor, as far as registers go. Where four find room, one finds it beside
// three of the kernel before (matvec.cuh), so that it can start while that ends.
template <int kDim, bool kDirect>
inline constexpr int kBlocks = kDim > 128              ? 1
                               : kDirect || kDim < 128 ? 4
                                                       : 3;

// grid: splits, KV heads, groups of query heads times parts of the values. Shared memory: a ring
// buffer for each warp.
template <int kDim, bool kDirect>
__global__ void __launch_bounds__(32 * kSplitWarps<kDim, kDirect>, kBlocks<kDim, kDirect>)
    attend_in_splits(const __grid_constant__ Task t, const __grid_constant__ Cache cache,
                     const int* position, const __grid_constant__ Partials out) {
  extern __shared__ __align__(16) std::byte shared[];
  __shared__ float2 m[kSplitWarps<kDim, kDirect>][kGroupRows];
  __shared__ NewToken<kDim> fresh;
  allow_next_kernel();
  const int lane = int(threadIdx.x) % 32, warp = int(threadIdx.x) / 32;
  const int warps = int(blockDim.x) / 32, head = int(blockIdx.y);
  constexpr int kParts = kValueParts<kDim>, kValues = kValueDim<kDim>;
  const int part = int(blockIdx.z) % kParts, of_group = int(blockIdx.z) / kParts * t.group_rows;
  const int first_head = head * t.group + of_group, rows = min(t.group_rows, t.group - of_group);
  std::byte* own = shared + warp * t.own_bytes;
  const Ring<kDim, kDirect> ring{keys_of(cache, t.layer, head),
                                 values_of(cache, t.layer, head),
                                 own,
                                 t.stage_bytes,
                                 t.dim,
                                 lane,
                                 part};
  if (!t.inputs_ready) wait_for_inputs();
  const bool stores = t.inputs.stores;
  const TokenSpan span = tokens_of_block(*position, t.window, t.first_token, !stores);
  start_split(ring, span, span.first + warp, warps);
  clear_queries(fresh, rows);
  const bool makes = stores && span.sees_newest();
  auto* const heads = reinterpret_cast<float*>(own + t.own_bytes) - kHeadFloats<kDim>;
  make_new_rows<kDim, kDirect>(t, cache, first_head, rows, makes, span.newest(), heads, fresh);
  __syncthreads();
  if (makes && blockIdx.z == 0) store_new_rows<kDim, kDirect>(fresh, cache, t.layer, span.newest());
  const Queries<kDim, kDirect> q(fresh.queries, lane);
  SoftmaxAccumulator<kValues> mix;
  attend_split(ring, span, span.first + warp, warps, {fresh.key, fresh.value}, q, t.cap, mix);
  __syncwarp();
  show<kValues, kDirect>(mix, lane, rows, *reinterpret_cast<Shared<kValues>*>(own), m[warp]);
  __syncthreads();
  write_partial<kValues, kSplitWarps<kDim, kDirect>>(
      t.dim, ring.first_value(), reinterpret_cast<const Shared<kValues>*>(shared), t.own_bytes, m,
      warps, rows, std::int64_t(blockIdx.x) * t.inputs.heads + first_head, out);
  if (t.merged.arrivals) merge_if_last<kParts>(t, out, first_head, rows, shared);
}

// Bytes of a warp's shared memory if it has up to `tiles` tiles: those of a short context have a
// stage each and the heads of the new token one more place.
template <int kDim, bool kDirect>
int own_bytes(const Task& t, int tiles) {
  constexpr int kAll = kStages<kDim, kDirect>, kHeads = kHeadFloats<kDim> * int(sizeof(float));
  if (tiles >= kAll) return kAll * t.stage_bytes;
  const int mixes = int(sizeof(Shared<kValueDim<kDim>>));
  return std::max(std::max(tiles, 1) * t.stage_bytes + kHeads, mixes);
}

// The most warps for which there is shared memory; sets what each has.
template <int kDim, bool kDirect>
int choose_warps(Task& t) {
  const int largest = device_facts().block_shared_bytes - int(sizeof(NewToken<kDim>)) - 1024;
  for (int warps = kSplitWarps<kDim, kDirect>;; --warps) {
    t.own_bytes = own_bytes<kDim, kDirect>(t, (t.tiles - 1) / warps + 1);
    if (warps == 1 || warps * t.own_bytes <= largest) return warps;
  }
}

// Returns whether the kernel merges the partial results as well.
template <int kDim, bool kDirect>
bool launch_attend(const Stream& stream, Task t, const Cache& cache, int splits,
                   const int* position, const Partials& out) {
  const auto kernel = attend_in_splits<kDim, kDirect>;
  t.stage_bytes = split_stage_bytes<kDim, kDirect>(cache);
  const int warps = choose_warps<kDim, kDirect>(t), bytes = warps * t.own_bytes;
  if (!last_block_merges(splits, std::min(t.group, t.group_rows), t.dim, 32 * warps))
    t.merged.arrivals = nullptr;
  RIGCAST_CUDA_CALL(
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
  // Blocks of kernels that divide the memory otherwise do not share a multiprocessor.
  RIGCAST_CUDA_CALL(cudaFuncSetAttribute(kernel, cudaFuncAttributePreferredSharedMemoryCarveout,
                                         cudaSharedmemCarveoutMaxShared));
  const dim3 grid(unsigned(splits), unsigned(cache.kv_heads),
                  unsigned((t.group + t.group_rows - 1) / t.group_rows * kValueParts<kDim>));
  launch(stream, {grid, dim3(unsigned(32 * warps)), std::size_t(bytes)}, t.start, kernel, t, cache,
         position, out);
  return t.merged.arrivals;
}

template <int kDim>
bool launch_width(const Stream& stream, const Task& t, const Cache& cache, int splits,
                  const int* position, const Partials& out) {
  const bool direct = cache.k_type == QuantFormat::kF16 && cache.v_type == QuantFormat::kF16;
  const auto run = direct ? launch_attend<kDim, true> : launch_attend<kDim, false>;
  return run(stream, t, cache, splits, position, out);
}

// The most tiles that a token of the context sees.
int tiles_of(const DecodeAttention& attention) {
  int tiles = INT_MAX;
  if (attention.max_tokens > 0) tiles = (attention.max_tokens - 1) / kTileRows + 1;
  if (attention.window != 0)
    tiles = std::min(tiles, (std::abs(attention.window) - 1) / kTileRows + 2);
  return tiles;
}

// Of a short context, whose warps have a tile each, a block with many heads takes longer than
// reading keys and values once more: blocks have few heads, as long as all run at once.
int heads_of_block(const DecodeAttention& attention, const Cache& cache, int splits) {
  constexpr int kFewHeads = 4, kBlocksAtOnce = 4;
  const int groups = (attention.inputs.heads / cache.kv_heads + kFewHeads - 1) / kFewHeads;
  const bool at_once = std::int64_t(splits) * cache.kv_heads * groups <=
                       kBlocksAtOnce * device_facts().multiprocessors;
  return attention.max_tokens > 0 && at_once ? kFewHeads : kGroupRows;
}

bool attend(const Stream& stream, const DecodeAttention& attention, const Cache& cache, int layer,
            int splits, const int* position, const Partials& partials, const MergedHeads& merged) {
  const int tiles = tiles_of(attention);
  const Task t{attention.inputs,
               query_scale(attention.inputs, cache.head_dim),
               attention.inputs.heads / cache.kv_heads,
               cache.head_dim,
               attention.window,
               layer,
               attention.first_token,
               attention.inputs_ready,
               attention.start,
               attention.cap,
               merged,
               (tiles - 1) / splits + 1,
               0,
               0,
               heads_of_block(attention, cache, splits)};
  const auto run = t.dim <= 64    ? launch_width<64>
                   : t.dim <= 96  ? launch_width<96>
                   : t.dim <= 128 ? launch_width<128>
                   : t.dim <= 256 ? launch_width<256>
                                  : launch_width<512>;
  return run(stream, t, cache, splits, position, partials);
}

// Tokens of a split where there are fewer than the most: one tile for every warp.
int min_split_tokens(int head_dim, bool fp16) {
  return kTileRows * (fp16 && head_dim > 128 ? kSplitWarps<256, true> : kSplitWarps<128, true>);
}

}  // namespace

int attention_splits(int tokens_upper_bound, int kv_heads, int head_dim, int multiprocessors,
                     bool fp16) {
  const int min_tokens = min_split_tokens(head_dim, fp16);
  const int work = (tokens_upper_bound + min_tokens - 1) / min_tokens;
  return std::clamp(work, 1, most_attention_splits(kv_heads, head_dim, multiprocessors, fp16));
}

int max_tokens_of_splits(int splits, int kv_heads, int head_dim, int multiprocessors, bool fp16) {
  if (splits >= most_attention_splits(kv_heads, head_dim, multiprocessors, fp16)) return 0;
  return splits * min_split_tokens(head_dim, fp16);
}

void attend_partially(const Stream& stream, const DecodeAttention& attention, const Cache& cache,
                      int layer, int splits, const int* position, const Partials& partials) {
  attend(stream, attention, cache, layer, splits, position, partials, {});
}

void attend_and_merge(const Stream& stream, const DecodeAttention& attention, const Cache& cache,
                      int layer, int splits, const int* position, const Partials& partials,
                      const MergedHeads& to) {
  if (!attend(stream, attention, cache, layer, splits, position, partials, to))
    merge_partials(stream, partials, splits, attention.inputs.heads, cache.head_dim, to.out,
                   to.sinks);
}

}  // namespace rigcast::engine::cuda
