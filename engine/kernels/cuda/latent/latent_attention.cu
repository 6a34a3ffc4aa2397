#include "engine/kernels/cuda/latent/latent_attention.cuh"

#include <algorithm>
#include <stdexcept>

#include "engine/cuda/launch.cuh"
#include "engine/kernels/cuda/attention/most_splits.hpp"
#include "engine/kernels/cuda/attention/split_tiles.cuh"
#include "engine/kernels/cuda/latent/latent_tiles.cuh"

namespace rigcast::engine::cuda {
namespace {

struct Task {
  const __half* queries;
  int heads, row, rank, layer, wanted, stages, first;
  Partials partials;
  __half* whole;  // null: partials are written
};

// The tiles [first, end) of this block, and the tokens [0, to) that its row sees.
struct Span {
  int to, first, end;
};
__device__ Span span_of(const Task& t, int position) {
  const int to = position + 1, tiles = (to + kLatentTile - 1) / kLatentTile;
  if (t.wanted == 0) {
    const long long split = blockIdx.x, splits = gridDim.x;
    return {to, int(split * tiles / splits), int((split + 1) * tiles / splits)};
  }
  const int of_split = split_tiles((to + kTileRows - 1) / kTileRows, t.wanted);
  static_assert(kLatentTile == 2 * kTileRows);
  const int own = (of_split + 1) / 2, first = min(tiles, int(blockIdx.x) * own);
  return {to, first, min(tiles, first + own)};
}

// The queries of the block's heads; zeros past the last one.
__device__ void load_queries(const Task& t, const __half* from, int heads, const LatentShared& s) {
  const int chunks = t.row / 8;
  for (int i = int(threadIdx.x); i < kLatentHeads * chunks; i += kLatentThreads) {
    const int head = i / chunks, chunk = i - head * chunks;
    uint4 v{};
    if (head < heads) v = __ldcg(reinterpret_cast<const uint4*>(from + head * t.row) + chunk);
    *reinterpret_cast<uint4*>(s.queries + head * s.stride + chunk * 8) = v;
  }
}

// What a warp keeps of heads lane / 4 and lane / 4 + 8: the scale m of probabilities, which all
// warps share, the sum of those of its own tokens, and sums of values in its own columns.
template <int kColumns>
struct Mix {
  float o[kColumns / 8][4] = {};
  float m[2] = {-INFINITY, -INFINITY}, l[2] = {};

  __device__ void rescale(const float (&scale)[2]) {
    if (__all_sync(~0u, scale[0] == 1.0f && scale[1] == 1.0f)) return;
#pragma unroll
    for (int d = 0; d < kColumns / 8; ++d) {
      o[d][0] *= scale[0], o[d][1] *= scale[0];
      o[d][2] *= scale[1], o[d][3] *= scale[1];
    }
  }
};

// The largest score of each head in a tile, over all warps.
__device__ __forceinline__ void find_largest(const LatentShared& s, const float (&score)[4],
                                             int warp, int lane, float (&largest)[2]) {
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const float own = row_max(fmaxf(score[2 * h], score[2 * h + 1]));
    if (lane % 4 == 0) s.maxima[warp * kLatentHeads + lane / 4 + 8 * h] = own;
  }
  __syncthreads();
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const float* const of_head = s.maxima + lane / 4 + 8 * h;
    largest[h] = of_head[0];
#pragma unroll
    for (int w = 1; w < kLatentWarps; ++w)
      largest[h] = fmaxf(largest[h], of_head[w * kLatentHeads]);
  }
}

template <int kColumns>
__device__ __forceinline__ void attend_tile(const Task& t, const LatentShared& s,
                                            const __half* tile, int token, int to, int warp,
                                            int lane, Mix<kColumns>& mix) {
  float score[4], largest[2], scale[2];
  score_latent(s, tile, t.row, warp, lane, score);
  const int mine = token + warp * 8 + lane % 4 * 2;
#pragma unroll
  for (int i = 0; i < 4; ++i)
    if (mine + i % 2 >= to) score[i] = -INFINITY;
  find_largest(s, score, warp, lane, largest);
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const float m = fmaxf(mix.m[h], exponent_for(largest[h]));
    scale[h] = power_of_2(mix.m[h] - m);
    mix.m[h] = m;
    const float a = power_of_2(score[2 * h] - m), b = power_of_2(score[2 * h + 1] - m);
    mix.l[h] = mix.l[h] * scale[h] + (a + b);
    __half* const weights = s.weights + (lane / 4 + 8 * h) * kWeightStride + warp * 8;
    *reinterpret_cast<std::uint32_t*>(weights + lane % 4 * 2) = pack_half2(a, b);
  }
  mix.rescale(scale);
  __syncthreads();
  const int columns = t.rank / kLatentWarps;
  mix_latent<kColumns>(s, tile, warp * columns, columns, lane, mix.o);
}

// The sum of probabilities of each of the warp's two heads, over all warps.
template <int kColumns>
__device__ __forceinline__ void sum_warps(const LatentShared& s, int warp, int lane,
                                          Mix<kColumns>& mix) {
  __syncthreads();  // maxima of the last tile have been read
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const float own = row_sum(mix.l[h]);
    if (lane % 4 == 0) s.maxima[warp * kLatentHeads + lane / 4 + 8 * h] = own;
  }
  __syncthreads();
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const float* const of_head = s.maxima + lane / 4 + 8 * h;
    mix.l[h] = of_head[0];
#pragma unroll
    for (int w = 1; w < kLatentWarps; ++w) mix.l[h] += of_head[w * kLatentHeads];
  }
}

// Writes the block's results: of head `first_head` and those behind it.
template <int kColumns>
__device__ void write_mix(const Task& t, const Mix<kColumns>& mix, std::int64_t row, int first_head,
                          int heads, int warp, int lane) {
  const int columns = t.rank / kLatentWarps;
  const std::int64_t first = t.whole ? t.first : 0;  // results of a whole step lie together
  const std::int64_t at = ((first + row) * gridDim.x + blockIdx.x) * t.heads + first_head;
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const int head = lane / 4 + 8 * h;
    if (head >= heads) continue;
    if (!t.whole && warp == 0 && lane % 4 == 0)
      t.partials.m[at + head] = mix.m[h], t.partials.l[at + head] = mix.l[h];
    const std::int64_t to = (at + head) * t.rank + warp * columns + lane % 4 * 2;
#pragma unroll
    for (int d = 0; d < kColumns / 8; ++d) {
      if (d * 8 >= columns) break;
      const float a = mix.o[d][2 * h], b = mix.o[d][2 * h + 1];
      if (t.whole)
        *reinterpret_cast<__half2*>(t.whole + to + d * 8) =
            __floats2half2_rn(__fdiv_rn(a, mix.l[h]), __fdiv_rn(b, mix.l[h]));
      else
        *reinterpret_cast<float2*>(t.partials.o + to + d * 8) = make_float2(a, b);
    }
  }
}

// grid: splits, groups of kLatentHeads heads, rows. kColumns: of a warp, at least.
template <int kColumns, bool kDirect>
__global__ void __launch_bounds__(kLatentThreads, 2)
    attend_latent_rows(const __grid_constant__ Task t, const __grid_constant__ Cache cache,
                       const __grid_constant__ StepRows step) {
  extern __shared__ __align__(16) std::byte shared[];
  allow_next_kernel();
  // Of rows that are single tokens, earlier ones were stored by earlier steps; of a prompt's, by
  // this one.
  const bool early = !t.whole;
  if (!early) wait_for_inputs();
  const int lane = int(threadIdx.x) % 32, warp = int(threadIdx.x) / 32;
  const std::int64_t row = blockIdx.z;
  const int first_head = int(blockIdx.y) * kLatentHeads;
  const int heads = min(kLatentHeads, t.heads - first_head);
  const Span span = span_of(t, step.position_of(t.first + int(row)));
  if (span.first >= span.end) {  // who merges does not read `o` then
    wait_for_inputs();
    const std::int64_t at = (row * gridDim.x + blockIdx.x) * t.heads + first_head;
    if (!t.whole && int(threadIdx.x) < heads)
      t.partials.m[at + threadIdx.x] = -INFINITY, t.partials.l[at + threadIdx.x] = 0;
    return;
  }
  const LatentShared s(shared, t.row);
  const HeadRows rows =
      keys_of(cache.of_sequence(step.sequence_of(t.first + int(row))), t.layer, 0);
  const int ahead = t.stages - 1;  // tiles that are copied while another is used
  const bool started = early && ahead > 0 && (span.first + 1) * kLatentTile < span.to;
  if (started)
    start_tile<kDirect>(rows, t.row, span.first * kLatentTile, span.to, s.tile(0), s.stride);
  wait_for_inputs();
  load_queries(t, t.queries + ((t.first + row) * t.heads + first_head) * t.row, heads, s);
  for (int i = 0; i < ahead; ++i) {
    if (span.first + i < span.end && !(i == 0 && started))
      start_tile<kDirect>(rows, t.row, (span.first + i) * kLatentTile, span.to, s.tile(i),
                          s.stride);
    commit_copies();
  }
  Mix<kColumns> mix;
  int stage = 0;
  for (int tile = span.first; tile < span.end; ++tile) {
    if (ahead > 0) wait_for_copies<0>();
    __syncthreads();  // the tile is there for all, and no warp uses the one before it
    if (tile + ahead < span.end)
      start_tile<kDirect>(rows, t.row, (tile + ahead) * kLatentTile, span.to,
                          s.tile((stage + ahead) % t.stages), s.stride);
    commit_copies();
    if (ahead == 0) {
      wait_for_copies<0>();
      __syncthreads();
    }
    attend_tile<kColumns>(t, s, s.tile(stage), tile * kLatentTile, span.to, warp, lane, mix);
    stage = (stage + 1) % t.stages;
  }
  sum_warps(s, warp, lane, mix);
  write_mix(t, mix, row, first_head, heads, warp, lane);
}

template <int kColumns, bool kDirect>
void launch_attend(const Stream& stream, Task t, const Cache& cache, int splits, int rows,
                   const StepRows& step) {
  const auto kernel = attend_latent_rows<kColumns, kDirect>;
  const std::size_t most = std::size_t(device_facts().block_shared_bytes);
  t.stages = latent_shared_bytes(t.row, 2) <= most ? 2 : 1;
  const std::size_t bytes = latent_shared_bytes(t.row, t.stages);
  if (bytes > most) throw std::invalid_argument("attend_latent: rows are too wide for this GPU");
  RIGCAST_CUDA_CALL(
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, int(bytes)));
  const dim3 grid(unsigned(splits), unsigned((t.heads + kLatentHeads - 1) / kLatentHeads),
                  unsigned(rows));
  launch(stream, {grid, dim3(kLatentThreads), bytes}, Start::kEarly, kernel, t, cache, step);
}

void attend(const Stream& stream, const Task& t, const Cache& cache, int splits, int rows,
            const StepRows& step) {
  if (t.rank % (16 * kLatentWarps) != 0 || t.rank > kMaxLatentRank || t.row % 32 != 0 ||
      t.row < t.rank)
    throw std::invalid_argument("attend_latent: a rank is a multiple of 64, a row of 32");
  const bool direct = cache.k_type == QuantFormat::kF16;
  const auto run = [&]<int kRank>() {
    constexpr int kColumns = kRank / kLatentWarps;
    (direct ? launch_attend<kColumns, true> : launch_attend<kColumns, false>)(stream, t, cache,
                                                                              splits, rows, step);
  };
  // Grids have 65,535 blocks in this direction.
  if (rows > 65535) throw std::invalid_argument("attend_latent: too many rows");
  if (rows < 1) return;
  if (t.rank <= 64) return run.operator()<64>();
  if (t.rank <= 256) return run.operator()<256>();
  run.operator()<512>();
}

Task task_of(const LatentAttention& a, const Cache& cache, int layer) {
  return {a.queries, a.heads, cache.head_dim, a.rank, layer, 0, 1, a.first, {}, nullptr};
}

}  // namespace

int latent_splits(int tokens_upper_bound, int heads, int multiprocessors) {
  static_assert(kLatentHeads == 16);
  const int tiles = (tokens_upper_bound + kLatentTile - 1) / kLatentTile;
  return std::clamp(tiles, 1, most_latent_splits(heads, multiprocessors));
}

void attend_latent(const Stream& stream, const LatentAttention& attention, const Cache& cache,
                   int layer, int splits, int wanted, const StepRows& rows,
                   const Partials& partials) {
  Task t = task_of(attention, cache, layer);
  t.wanted = wanted;
  t.partials = partials;
  attend(stream, t, cache, splits, attention.rows, rows);
}

void attend_latent_whole(const Stream& stream, const LatentAttention& attention, const Cache& cache,
                         int layer, const StepRows& rows, __half* out) {
  Task t = task_of(attention, cache, layer);
  t.whole = out;
  attend(stream, t, cache, 1, attention.rows, rows);
}

}  // namespace rigcast::engine::cuda
