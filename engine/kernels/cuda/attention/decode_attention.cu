#include "engine/kernels/cuda/attention/decode_attention.cuh"

#include <algorithm>
#include <cmath>

#include "engine/cuda/launch.cuh"
#include "engine/cuda/prefetch.cuh"
#include "engine/kernels/cuda/attention/decode_split.cuh"
#include "engine/kernels/cuda/attention/most_splits.hpp"
#include "engine/kernels/cuda/kv/rope_device.cuh"

namespace rigcast::engine::cuda {
namespace {

struct Task {
  NewTokenInputs inputs;
  float query_scale;
  int group, dim, window, layer, first_token;
  bool inputs_ready;
  Start start;
  SoftCap cap;
  int stage_bytes;  // bytes of a stage of a warp's ring buffer
};

// The block's results for the new token: the queries of its heads (zeros past the last head), and
// the rows of its keys and values.
template <int kDim, bool kDirect>
struct NewToken {
  __half queries[kGroupRows][kTileStride<kDim>];
  __align__(16) std::byte key[2 * kDim], value[2 * kDim];
  __align__(16) float own[kSplitWarps<kDim, kDirect>][kDim];  // the head on which a warp works
};

// Computes them with all warps, each one head at a time: `rows` queries of this block, then a key
// and a value if `keys`. The loop is not unrolled, and has one copy of each part: a good part of a
// kernel of microseconds is the first fetch of its instructions. A head's load is under way while
// the one before is computed.
template <int kDim, bool kDirect>
__device__ void make_new_rows(const Task& t, const Cache& cache,
                              const LaneRopeAngles<kHeadRoom<kDim>>& rope_cos_sin, int first,
                              int rows, bool keys, int position, NewToken<kDim, kDirect>& to) {
  const int lane = int(threadIdx.x) % 32, warp = int(threadIdx.x) / 32;
  const int kv_head = int(blockIdx.y);
  const int warps = int(blockDim.x) / 32, count = rows + (keys ? 2 : 0);
  const NewHeads<kHeadRoom<kDim>> heads{t.inputs, rope_cos_sin, 0, t.dim, lane, to.own[warp]};
  const float query_scale = t.query_scale * t.inputs.temperature.at(position);
  const auto kind_of = [&](int i) {
    return i < rows ? HeadKind::kQuery : i == rows ? HeadKind::kKey : HeadKind::kValue;
  };
  const auto head_of = [&](int i) { return i < rows ? first + i : kv_head; };
  LoadedHead<kDim> head;
  if (warp < count) head.load(heads.projected(kind_of(warp)), 0, head_of(warp), t.dim, lane);
#pragma unroll 1
  for (int i = warp; i < count; i += warps) {
    const HeadKind kind = kind_of(i);
    head.put(heads.own, t.dim, lane);
    if (const int next = i + warps; next < count)
      head.load(heads.projected(kind_of(next)), 0, head_of(next), t.dim, lane);
    heads.finish(kind, head_of(i));
    std::byte* const row = kind == HeadKind::kKey ? to.key : to.value;
    if (kDirect || kind == HeadKind::kQuery)
      put_fp16(heads.own, kind == HeadKind::kQuery ? query_scale : 1.0f, t.dim,
               kind == HeadKind::kQuery ? to.queries[i] : reinterpret_cast<__half*>(row), lane);
    else
      put_row(kind == HeadKind::kKey ? cache.k_type : cache.v_type, heads.own, t.dim, row, lane);
    __syncwarp();
  }
}

// Starts to fetch the weights of the heads' norms, which no earlier kernel writes.
__device__ void prefetch_norms(const NewTokenInputs& inputs, int dim) {
  const int at = int(threadIdx.x) * 32;  // a line of 128 bytes
  if (inputs.layer_norms || at >= dim) return;
  if (inputs.q_norm) prefetch(inputs.q_norm + at);
  if (inputs.k_norm) prefetch(inputs.k_norm + at);
}

// Writes the new rows to the cache; one of the blocks that see the new token does so.
template <int kDim, bool kDirect>
__device__ void store_new_rows(const NewToken<kDim, kDirect>& from, const Cache& cache, int layer,
                               int position) {
  const int head = int(blockIdx.y), row = position % cache.block_tokens;
  std::byte* block = cache.blocks[position / cache.block_tokens];
  const int thread = int(threadIdx.x), threads = int(blockDim.x);
  copy_row(from.key, block + cache.keys_at(layer, head) + row * cache.k_row, cache.k_row, thread,
           threads);
  copy_row(from.value, block + cache.values_at(layer, head) + row * cache.v_row, cache.v_row,
           thread, threads);
}

// grid: splits, KV heads, groups of 16 query heads times parts of the values. Shared memory: a ring
// buffer for each warp.
template <int kDim, bool kDirect>
__global__ void __launch_bounds__(32 * kSplitWarps<kDim, kDirect>, kDim > 128 ? 1
                                                                   : kDirect  ? 2
                                                                              : 3)
    attend_in_splits(const __grid_constant__ Task t, const __grid_constant__ Cache cache,
                     const int* position, Partials out) {
  extern __shared__ __align__(16) std::byte shared[];
  __shared__ float m[kSplitWarps<kDim, kDirect>][kGroupRows][2];
  __shared__ NewToken<kDim, kDirect> fresh;
  allow_next_kernel();
  const int lane = int(threadIdx.x) % 32, warp = int(threadIdx.x) / 32;
  const int warps = int(blockDim.x) / 32, head = int(blockIdx.y);
  constexpr int kParts = kValueParts<kDim>, kValues = kValueDim<kDim>;
  const int part = int(blockIdx.z) % kParts, of_group = int(blockIdx.z) / kParts * kGroupRows;
  const int first_head = head * t.group + of_group, rows = min(kGroupRows, t.group - of_group);
  const int own_bytes = kStages<kDim, kDirect> * t.stage_bytes;
  std::byte* own = shared + warp * own_bytes;
  const Ring<kDim, kDirect> ring{keys_of(cache, t.layer, head),
                                 values_of(cache, t.layer, head),
                                 own,
                                 t.stage_bytes,
                                 t.dim,
                                 lane,
                                 part};
  prefetch_norms(t.inputs, t.dim);
  if (!t.inputs_ready) wait_for_inputs();
  const bool stores = t.inputs.stores;
  const TokenSpan span = tokens_of_block(*position, t.window, t.first_token, !stores);
  start_split(ring, span, span.first + warp, warps);
  const LaneRopeAngles<kHeadRoom<kDim>> rope_cos_sin(t.inputs, 0, lane);
  for (int i = int(threadIdx.x) * 2; i < kGroupRows * kTileStride<kDim>; i += int(blockDim.x) * 2)
    *reinterpret_cast<std::uint32_t*>(fresh.queries[0] + i) = 0;
  __syncthreads();
  wait_for_inputs();
  const bool sees_new = stores && span.end * kTileRows >= span.to;
  make_new_rows(t, cache, rope_cos_sin, first_head, rows, sees_new, span.newest(), fresh);
  __syncthreads();
  if (sees_new && blockIdx.z == 0) store_new_rows(fresh, cache, t.layer, span.newest());
  const Queries<kDim, kDirect> q(fresh.queries, lane);
  SoftmaxAccumulator<kValues> mix;
  attend_split(ring, span, span.first + warp, warps, {fresh.key, fresh.value}, q, t.cap, mix);
  __syncwarp();
  show<kValues, kDirect>(mix, lane, *reinterpret_cast<Shared<kValues>*>(own), m[warp]);
  __syncthreads();
  write_partial(t.dim, ring.first_value(), reinterpret_cast<const Shared<kValues>*>(shared),
                own_bytes, m, warps, rows, std::int64_t(blockIdx.x) * t.inputs.heads + first_head,
                out);
}

template <int kDim, bool kDirect>
void launch_attend(const Stream& stream, Task t, const Cache& cache, int splits,
                   const int* position, const Partials& out) {
  const auto kernel = attend_in_splits<kDim, kDirect>;
  t.stage_bytes = split_stage_bytes<kDim, kDirect>(cache);
  const int own = kStages<kDim, kDirect> * t.stage_bytes;
  const int largest =
      device_facts().block_shared_bytes - int(sizeof(NewToken<kDim, kDirect>)) - 1024;
  const int warps = std::clamp(largest / own, 1, kSplitWarps<kDim, kDirect>);
  RIGCAST_CUDA_CALL(
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, warps * own));
  const dim3 grid(unsigned(splits), unsigned(cache.kv_heads),
                  unsigned((t.group + kGroupRows - 1) / kGroupRows * kValueParts<kDim>));
  launch(stream, {grid, dim3(unsigned(32 * warps)), std::size_t(warps * own)}, t.start, kernel, t,
         cache, position, out);
}

template <int kDim>
void launch_width(const Stream& stream, const Task& t, const Cache& cache, int splits,
                  const int* position, const Partials& out) {
  const bool direct = cache.k_type == QuantFormat::kF16 && cache.v_type == QuantFormat::kF16;
  (direct ? launch_attend<kDim, true> : launch_attend<kDim, false>)(stream, t, cache, splits,
                                                                    position, out);
}

}  // namespace

int attention_splits(int tokens_upper_bound, int kv_heads, int head_dim, int multiprocessors,
                     bool fp16) {
  const int warps = fp16 && head_dim > 128 ? kSplitWarps<256, true> : kSplitWarps<128, true>;
  const int min_tokens = warps * kTileRows;  // one tile for every warp
  const int work = (tokens_upper_bound + min_tokens - 1) / min_tokens;
  return std::clamp(work, 1, most_attention_splits(kv_heads, head_dim, multiprocessors, fp16));
}

void attend_partially(const Stream& stream, const DecodeAttention& attention, const Cache& cache,
                      int layer, int splits, const int* position, const Partials& partials) {
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
               0};
  const auto run = t.dim <= 64    ? launch_width<64>
                   : t.dim <= 96  ? launch_width<96>
                   : t.dim <= 128 ? launch_width<128>
                   : t.dim <= 256 ? launch_width<256>
                                  : launch_width<512>;
  run(stream, t, cache, splits, position, partials);
}

}  // namespace rigcast::engine::cuda
