#include "engine/kernels/cuda/attention/step_attention.cuh"

#include <algorithm>

#include "engine/kernels/cuda/attention/decode_split.cuh"
#include "engine/kernels/cuda/kv/rope_and_store.cuh"

namespace rigcast::engine::cuda {
namespace {

struct Task {
  const __half* queries;
  int heads, group, dim, window, layer;
  int stage_bytes;  // bytes of a stage of a warp's ring buffer
  int wanted;       // splits of a row
  SoftCap cap;
  HalfRows out;  // of rows that have one split
  Sinks sinks;   // likewise
};

// The queries of a KV head's group, zeros past the last one.
template <int kDim>
__device__ void load_group(const __half* from, int dim, int rows,
                           __half (&to)[kGroupRows][kTileStride<kDim>]) {
  constexpr int kChunks = kTileStride<kDim> / 8;
  for (int i = int(threadIdx.x); i < kGroupRows * kChunks; i += int(blockDim.x)) {
    const int row = i / kChunks, chunk = i % kChunks;
    uint4 v{};
    if (row < rows && chunk * 8 < dim)
      v = *reinterpret_cast<const uint4*>(from + row * dim + chunk * 8);
    *reinterpret_cast<uint4*>(to[row] + chunk * 8) = v;
  }
}

// grid: splits, KV heads, rows times groups of 16 query heads times parts of the values. Shared
// memory: a ring buffer for each warp.
template <int kDim, bool kDirect>
__global__ void __launch_bounds__(32 * kSplitWarps<kDim, kDirect>, kDim > 128 ? 1
                                                                   : kDirect  ? 2
                                                                              : 3)
    attend_to_splits(const __grid_constant__ Task t, const __grid_constant__ Cache cache,
                     const __grid_constant__ StepRows step, Partials out) {
  extern __shared__ __align__(16) std::byte shared[];
  __shared__ float2 m[kSplitWarps<kDim, kDirect>][kGroupRows];
  __shared__ __align__(16) __half queries[kGroupRows][kTileStride<kDim>];
  allow_next_kernel();
  constexpr int kParts = kValueParts<kDim>, kValues = kValueDim<kDim>;
  const int groups = (t.group + kGroupRows - 1) / kGroupRows;
  const int part = int(blockIdx.z) % kParts, place = int(blockIdx.z) / kParts;
  const int row = place / groups, first_of_group = place % groups * kGroupRows;
  const int head = int(blockIdx.y), first_head = head * t.group + first_of_group;
  const int rows = min(kGroupRows, t.group - first_of_group);
  const int lane = int(threadIdx.x) % 32, warp = int(threadIdx.x) / 32;
  const int warps = int(blockDim.x) / 32, own_bytes = kStages<kDim, kDirect> * t.stage_bytes;
  std::byte* const own = shared + warp * own_bytes;
  const TokenSpan span = tokens_of_split(step.position_of(row), t.window, t.wanted);
  const std::int64_t at = (std::int64_t(row) * gridDim.x + blockIdx.x) * t.heads + first_head;
  if (span.first >= span.end) {  // merge_rows() does not read `o` then
    wait_for_inputs();
    if (int(threadIdx.x) < rows) out.m[at + threadIdx.x] = -INFINITY, out.l[at + threadIdx.x] = 0;
    return;
  }
  const Cache seen = cache.of_sequence(step.sequence_of(row));
  const Ring<kDim, kDirect> ring{keys_of(seen, t.layer, head),
                                 values_of(seen, t.layer, head),
                                 own,
                                 t.stage_bytes,
                                 t.dim,
                                 lane,
                                 part};
  // Earlier tokens were stored by earlier steps; the newest one by the previous kernel.
  const int last_started = span.first + warp + (kStages<kDim, kDirect> - 2) * warps;
  const bool early = last_started < span.newest() / kTileRows;
  if (early) start_split(ring, span, span.first + warp, warps);
  wait_for_inputs();
  if (!early) start_split(ring, span, span.first + warp, warps);
  load_group<kDim>(t.queries + (std::int64_t(row) * t.heads + first_head) * t.dim, t.dim, rows,
                   queries);
  __syncthreads();
  const Queries<kDim, kDirect> q(queries, lane);
  SoftmaxAccumulator<kValues> mix;
  attend_split(ring, span, span.first + warp, warps, {}, q, t.cap, mix);
  __syncwarp();
  show<kValues, kDirect>(mix, lane, rows, *reinterpret_cast<Shared<kValues>*>(own), m[warp]);
  __syncthreads();
  const auto* mixes = reinterpret_cast<const Shared<kValues>*>(shared);
  const int first = ring.first_value();
  constexpr int kWarps = kSplitWarps<kDim, kDirect>;
  if (gridDim.x > 1)
    return write_partial<kValues, kWarps>(t.dim, first, mixes, own_bytes, m, warps, rows, at, out);
  // As merge_rows() would for one partial.
  merge_warps<kValues, kWarps>(
      mixes, own_bytes, m, warps, rows,
      [&](int i, int column, float m_all, float l, const float4& o) {
        column += first;
        if (column >= t.dim) return;
        if (t.sinks) l += sink_term(t.sinks[first_head + i], m_all);
        const std::int64_t width = std::int64_t(t.heads) * t.dim;
        const std::int64_t to = std::int64_t(first_head + i) * t.dim + column;
        const float values[] = {o.x, o.y, o.z, o.w};
#pragma unroll
        for (int k = 0; k < 4; ++k)
          t.out.to[index_in(t.out, row, width, to + k)] = __float2half_rn(__fdiv_rn(values[k], l));
      });
}

template <int kDim, bool kDirect>
void launch_attend(const Stream& stream, Task t, const Cache& cache, int splits,
                   const StepRows& step, int rows, const Partials& out) {
  const auto kernel = attend_to_splits<kDim, kDirect>;
  t.stage_bytes = split_stage_bytes<kDim, kDirect>(cache);
  const int own = kStages<kDim, kDirect> * t.stage_bytes;
  const int largest = device_facts().block_shared_bytes - 2 * kGroupRows * kTileStride<kDim> - 1024;
  const int warps = std::clamp(largest / own, 1, kSplitWarps<kDim, kDirect>);
  RIGCAST_CUDA_CALL(
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, warps * own));
  const int groups = (t.group + kGroupRows - 1) / kGroupRows;
  const dim3 grid(unsigned(splits), unsigned(cache.kv_heads),
                  unsigned(rows * groups * kValueParts<kDim>));
  launch(stream, {grid, dim3(unsigned(32 * warps)), std::size_t(warps * own)}, Start::kEarly,
         kernel, t, cache, step, out);
}

template <int kDim>
void launch_width(const Stream& stream, const Task& t, const Cache& cache, int splits,
                  const StepRows& step, int rows, const Partials& out) {
  const bool direct = cache.k_type == QuantFormat::kF16 && cache.v_type == QuantFormat::kF16;
  (direct ? launch_attend<kDim, true> : launch_attend<kDim, false>)(stream, t, cache, splits, step,
                                                                    rows, out);
}

}  // namespace

StepSplits step_splits(int rows, int kv_heads, int context) {
  constexpr int kMaxWanted = 64;
  StepSplits s;
  // Two blocks at once for each multiprocessor.
  s.wanted =
      std::clamp(2 * device_facts().multiprocessors / std::max(1, rows * kv_heads), 1, kMaxWanted);
  const int tiles = (context + kTileRows - 1) / kTileRows + 1;  // a window may begin within a tile
  const auto splits_of = [&](int of_split) { return (tiles + of_split - 1) / of_split; };
  // Shorter contexts have fewer splits, or as many as are wanted.
  s.count = std::max(std::min(s.wanted, splits_of(split_tiles(1, 1))),
                     splits_of(split_tiles(tiles, s.wanted)));
  return s;
}

void attend_rows(const Stream& stream, const StepAttention& attention, const Cache& cache,
                 int layer, const StepSplits& splits, const StepRows& rows,
                 const Partials& partials, const HalfRows& out) {
  if (attention.rows < 1) return;
  const Task t{attention.queries,
               attention.heads,
               attention.heads / cache.kv_heads,
               cache.head_dim,
               attention.window,
               layer,
               0,
               splits.wanted,
               attention.cap,
               out,
               attention.sinks};
  const auto run = t.dim <= 64    ? launch_width<64>
                   : t.dim <= 96  ? launch_width<96>
                   : t.dim <= 128 ? launch_width<128>
                   : t.dim <= 256 ? launch_width<256>
                                  : launch_width<512>;
  run(stream, t, cache, splits.count, rows, attention.rows, partials);
}

}  // namespace rigcast::engine::cuda
