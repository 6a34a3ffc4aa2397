#include "engine/kernels/cuda/decode_attention.cuh"

#include <algorithm>
#include <cmath>

#include "engine/cuda/launch.cuh"
#include "engine/kernels/cuda/attention_tiles.cuh"

namespace rigcast::engine::cuda {
namespace {

constexpr int kGroupRows = 16;  // query heads that share a reading of the cache: a product's rows
constexpr int kWarps = 4;       // at most; each takes every kWarps-th tile of a split by itself
constexpr int kStages = 3;      // tiles of a warp that are under way or in use

struct Task {
  const __half* queries;
  int heads, group, dim, window, layer;
  bool settled;
  int stage_bytes;  // of a warp's ring
};

// The tokens [from, to) of the context, and of them the tiles [first, end) of this block.
struct Span {
  int from, to, first, end;
};
__device__ Span span_of_block(int position, int window) {
  Span s;
  s.to = position + 1;
  s.from = window > 0 ? max(0, s.to - window) : 0;
  const int first = s.from / kTileRows, tiles = (s.to + kTileRows - 1) / kTileRows - first;
  const long long split = blockIdx.x, splits = gridDim.x;
  s.first = first + int(split * tiles / splits);
  s.end = first + int((split + 1) * tiles / splits);
  return s;
}

// A tile of keys and one of values. Direct: both are halves, and copies put each row where products
// take it from. Otherwise rows come as they are, one after the other.
template <int kDim, bool kDirect>
struct Ring {
  static constexpr int kRowBytes = kTileStride<kDim> * 2, kTileBytes = kTileRows * kRowBytes;

  HeadRows keys, values;
  std::byte* place;  // this warp's
  int stage_bytes, dim, lane;

  __device__ std::byte* keys_at(int stage) const { return place + stage * stage_bytes; }
  __device__ std::byte* values_at(int stage) const {
    return keys_at(stage) + (kDirect ? kTileBytes : kTileRows * keys.row_bytes);
  }

  __device__ void start(int tile, int stage, const Span& span) const {
    const int token = tile * kTileRows, block = token / keys.block_tokens;
    const int of_block = token - block * keys.block_tokens;
    const Bytes at = keys.blocks[block];
    copy(keys.row(at, of_block), keys.row_bytes, token, span, keys_at(stage));
    copy(values.row(at, of_block), values.row_bytes, token, span, values_at(stage));
  }

  __device__ void copy(Bytes from, int row_bytes, int token, const Span& span,
                       std::byte* to) const {
    const std::uint32_t at = shared_address(to);
    if constexpr (kDirect) {
      constexpr int kChunks = kDim / 8;
#pragma unroll
      for (int i = lane; i < kTileRows * kChunks; i += 32) {
        const int row = i / kChunks, chunk = i - row * kChunks;
        const bool seen = token + row >= span.from && token + row < span.to && chunk * 8 < dim;
        copy_or_zero(at + unsigned(row * kRowBytes + chunk * 16),
                     from + (seen ? row * dim * 2 + chunk * 16 : 0), seen);
      }
    } else {
      const int first = max(0, span.from - token) * row_bytes;
      const int end = min(kTileRows, span.to - token) * row_bytes;
#pragma unroll 2
      for (int i = lane * 16; i < kTileRows * row_bytes; i += 512)
        if (i + 16 > first && i < end) copy_or_zero(at + unsigned(i), from + i, true);
    }
  }

  // Rows of values that nobody may see: a NaN there would spoil products with zeros.
  __device__ void clear_unseen(int stage, int token, const Span& span) const {
    for (int row = 0; row < kTileRows; ++row)
      if (token + row < span.from || token + row >= span.to)
        for (int i = lane * 2; i < values.row_bytes; i += 64)
          *reinterpret_cast<std::uint16_t*>(values_at(stage) + row * values.row_bytes + i) = 0;
    __syncwarp();
  }
};

// What a warp has seen: rows lane / 4 and 8 further of the group, as products leave them.
template <int kDim>
struct Mix {
  float o[kDim / 8][4] = {};
  float m[2] = {-INFINITY, -INFINITY};
  float l[2] = {};  // of this lane's columns

  // Probabilities of 16 tokens in the form of a product's left side.
  __device__ void weigh(float (&s)[2][4], std::uint32_t (&p)[4]) {
    float scale[2];
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const float most =
          row_max(fmaxf(fmaxf(s[0][2 * h], s[0][2 * h + 1]), fmaxf(s[1][2 * h], s[1][2 * h + 1])));
      const float m_new = fmaxf(m[h], exponent_for(most));
      scale[h] = power_of_2(m[h] - m_new);
      m[h] = m_new;
#pragma unroll
      for (int n = 0; n < 2; ++n) {
        const float a = power_of_2(s[n][2 * h] - m_new), b = power_of_2(s[n][2 * h + 1] - m_new);
        s[n][2 * h] = a;
        s[n][2 * h + 1] = b;
        p[2 * n + h] = pack_halves(a, b);
      }
      l[h] = l[h] * scale[h] + ((s[0][2 * h] + s[0][2 * h + 1]) + (s[1][2 * h] + s[1][2 * h + 1]));
    }
    if (__all_sync(~0u, scale[0] == 1.0f && scale[1] == 1.0f)) return;
#pragma unroll
    for (int d = 0; d < kDim / 8; ++d) {
      o[d][0] *= scale[0], o[d][1] *= scale[0];
      o[d][2] *= scale[1], o[d][3] *= scale[1];
    }
  }
};

// Which element of its head a product's left side has in step k, register i of a lane. Products of
// blocks go through a block's words of four in the order in which lanes read them.
template <bool kDirect>
__device__ int query_column(int k, int i, int lane) {
  if (kDirect) return k * 16 + i / 2 * 8 + lane % 4 * 2;
  return k / 2 * 32 + (k % 2 * 4 + lane % 4) * 4 + i / 2 * 2;
}

template <int kDim, bool kDirect>
__device__ void load_queries(const Task& t, int first_head, int lane,
                             std::uint32_t (&q)[kDim / 16][4]) {
#pragma unroll
  for (int k = 0; k < kDim / 16; ++k)
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int column = query_column<kDirect>(k, i, lane);
      const int head = int(blockIdx.z) * kGroupRows + lane / 4 + i % 2 * 8;
      const __half* at = t.queries + std::int64_t(first_head + head) * t.dim + column;
      q[k][i] = head < t.group && column < t.dim ? *reinterpret_cast<const std::uint32_t*>(at) : 0;
    }
}

// Scores of 16 tokens, two sums of each: one chain of products would make the next wait.
template <int kDim>
__device__ __forceinline__ void score_halves(const std::byte* keys, int lane,
                                             const std::uint32_t (&q)[kDim / 16][4],
                                             float (&s)[2][4]) {
  constexpr int kRowBytes = kTileStride<kDim> * 2;
  const std::uint32_t at =
      shared_address(keys) + unsigned((lane / 16 * 8 + lane % 8) * kRowBytes + lane / 8 % 2 * 16);
  float odd[2][4] = {};
#pragma unroll
  for (int k = 0; k < kDim / 16; ++k) {
    std::uint32_t b[4];
    load_tiles(b, at + unsigned(k * 32));
    multiply_add(k % 2 == 0 ? s[0] : odd[0], q[k], b[0], b[1]);
    multiply_add(k % 2 == 0 ? s[1] : odd[1], q[k], b[2], b[3]);
  }
#pragma unroll
  for (int i = 0; i < 8; ++i) s[i / 4][i % 4] += odd[i / 4][i % 4];
}

template <int kDim>
__device__ __forceinline__ void mix_halves(const std::byte* values, int lane,
                                           const std::uint32_t (&p)[4], float (&o)[kDim / 8][4]) {
  constexpr int kRowBytes = kTileStride<kDim> * 2;
  const std::uint32_t at =
      shared_address(values) + unsigned(lane % 16 * kRowBytes + lane / 16 * 16);
#pragma unroll
  for (int d = 0; d < kDim / 16; ++d) {
    std::uint32_t b[4];
    load_tiles_turned(b, at + unsigned(d * 32));
    multiply_add(o[2 * d], p, b[0], b[1]);
    multiply_add(o[2 * d + 1], p, b[2], b[3]);
  }
}

// The same on rows as the cache holds them. Lanes turn what they take into halves by themselves;
// tokens and elements are in an order that lets a lane take four neighbours, and all lanes other
// banks: column n of product j is token 2 n + j.
template <QuantFormat kType, int kDim, bool kWhole>
__device__ __forceinline__ void score_blocks(int keys, int row_bytes, int dim, int lane,
                                             const std::uint32_t (&q)[kDim / 16][4],
                                             float (&s)[2][4]) {
  const int row = keys + lane / 4 * 2 * row_bytes;
  const RowWords<kType> rows[2] = {{row, lane % 4}, {row + row_bytes, lane % 4}};
#pragma unroll
  for (int block = 0; block < kDim / 32; ++block) {
    if (!kWhole && block * 32 >= dim) break;
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      const uint2 low = rows[j].halves(block), high = rows[j].template halves<4>(block);
      multiply_add(s[j], q[2 * block], low.x, low.y);
      multiply_add(s[j], q[2 * block + 1], high.x, high.y);
    }
  }
}

// Column n of product 4 * block + e is element 4 n + e of the block.
template <QuantFormat kType, int kDim, bool kWhole>
__device__ __forceinline__ void mix_blocks(int values, int row_bytes, int dim, int lane,
                                           const std::uint32_t (&p)[4], float (&o)[kDim / 8][4]) {
  const int row = values + lane % 4 * 4 * row_bytes;
  const RowWords<kType> rows[4] = {{row, lane / 4},
                                   {row + row_bytes, lane / 4},
                                   {row + 2 * row_bytes, lane / 4},
                                   {row + 3 * row_bytes, lane / 4}};
#pragma unroll
  for (int block = 0; block < kDim / 32; ++block) {
    if (!kWhole && block * 32 >= dim) break;
    uint2 v[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) v[i] = rows[i].halves(block);
    float(*const to)[4] = o + 4 * block;
    multiply_add(to[0], p, low_halves(v[0].x, v[2].x), low_halves(v[1].x, v[3].x));
    multiply_add(to[1], p, high_halves(v[0].x, v[2].x), high_halves(v[1].x, v[3].x));
    multiply_add(to[2], p, low_halves(v[0].y, v[2].y), low_halves(v[1].y, v[3].y));
    multiply_add(to[3], p, high_halves(v[0].y, v[2].y), high_halves(v[1].y, v[3].y));
  }
}

// Calls what is wanted for the type, and for heads as wide as the kernel without a look at each
// block: their loads then overlap.
template <int kDim, class Blocks>
__device__ __forceinline__ void for_type(QuantFormat type, int dim, Blocks blocks) {
  using enum QuantFormat;
  const auto of_type = [&]<QuantFormat kType>() {
    if (dim == kDim)
      blocks.template operator()<kType, true>();
    else
      blocks.template operator()<kType, false>();
  };
  if (type == kQ8_0)
    of_type.template operator()<kQ8_0>();
  else if (type == kQ4_0)
    of_type.template operator()<kQ4_0>();
  else
    of_type.template operator()<kF16>();
}

template <int kDim, bool kDirect>
__device__ __forceinline__ void score_tile(const Ring<kDim, kDirect>& ring, int stage,
                                           const std::uint32_t (&q)[kDim / 16][4],
                                           float (&s)[2][4]) {
  const std::byte* keys = ring.keys_at(stage);
  if constexpr (kDirect)
    score_halves<kDim>(keys, ring.lane, q, s);
  else
    for_type<kDim>(ring.keys.type, ring.dim, [&]<QuantFormat kType, bool kWhole>() {
      score_blocks<kType, kDim, kWhole>(shared_offset(keys), ring.keys.row_bytes, ring.dim,
                                        ring.lane, q, s);
    });
}

template <int kDim, bool kDirect>
__device__ __forceinline__ void mix_tile(const Ring<kDim, kDirect>& ring, int stage,
                                         const std::uint32_t (&p)[4], float (&o)[kDim / 8][4]) {
  const std::byte* values = ring.values_at(stage);
  if constexpr (kDirect)
    mix_halves<kDim>(values, ring.lane, p, o);
  else
    for_type<kDim>(ring.values.type, ring.dim, [&]<QuantFormat kType, bool kWhole>() {
      mix_blocks<kType, kDim, kWhole>(shared_offset(values), ring.values.row_bytes, ring.dim,
                                      ring.lane, p, o);
    });
}

template <int kDim, bool kDirect>
__device__ void attend_tile(const Ring<kDim, kDirect>& ring, int tile, int stage, const Span& span,
                            const std::uint32_t (&q)[kDim / 16][4], Mix<kDim>& mix) {
  const int token = tile * kTileRows, lane = ring.lane;
  float s[2][4] = {};
  score_tile(ring, stage, q, s);
  if (token < span.from || token + kTileRows > span.to) {
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const int n = lane % 4 * 2 + i % 2, at = token + (kDirect ? i / 4 * 8 + n : 2 * n + i / 4);
      if (at < span.from || at >= span.to) s[i / 4][i % 4] = -INFINITY;
    }
    if constexpr (!kDirect) ring.clear_unseen(stage, token, span);
  }
  std::uint32_t p[4];
  mix.weigh(s, p);
  mix_tile(ring, stage, p, mix.o);
}

// The warp's first tiles are asked for before what they are multiplied with is there: where the
// context is settled, while kernels ahead still run. The newest token's tile waits for them.
template <int kDim, bool kDirect>
__device__ void start_split(const Ring<kDim, kDirect>& ring, const Span& span, int first, int warps,
                            bool settled) {
  bool waited = !settled;
#pragma unroll
  for (int i = 0; i < kStages - 1; ++i) {
    const int tile = first + i * warps;
    if (!waited && (tile + 1) * kTileRows >= span.to) {
      wait_for_inputs();
      waited = true;
    }
    if (tile < span.end) ring.start(tile, i, span);
    end_copies();
  }
  if (!waited) wait_for_inputs();
}

// The warp's tiles, each a few steps after it was asked for.
template <int kDim, bool kDirect>
__device__ void attend_split(const Ring<kDim, kDirect>& ring, const Span& span, int first,
                             int warps, const std::uint32_t (&q)[kDim / 16][4], Mix<kDim>& mix) {
  int stage = 0;
  for (int tile = first; tile < span.end; tile += warps) {
    const int next = tile + (kStages - 1) * warps;
    if (next < span.end) ring.start(next, (stage + kStages - 1) % kStages, span);
    end_copies();
    wait_for_copies<kStages - 1>();
    __syncwarp();
    attend_tile(ring, tile, stage, span, q, mix);
    __syncwarp();
    stage = (stage + 1) % kStages;
  }
  wait_for_copies<0>();
}

// Every warp's mix in shared memory, for its block to merge.
template <int kDim>
struct Shared {
  float o[kGroupRows][kDim + 8];  // lanes of a warp then touch every bank once
};

// Two neighbours of a product, or of four products that share a block's columns.
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
__device__ void show(const Mix<kDim>& mix, int lane, Shared<kDim>& to, float (*m)[2]) {
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

// The warps' mixes as the split's partial.
template <int kDim>
__device__ void write_partial(const Task& t, const Shared<kDim>* mixes, int mix_bytes,
                              const float (*m)[kGroupRows][2], int warps, int first_head,
                              const Partials& out) {
  const int rows = min(kGroupRows, t.group - int(blockIdx.z) * kGroupRows);
  const std::int64_t at = std::int64_t(blockIdx.x) * t.heads + first_head + blockIdx.z * kGroupRows;
  for (int i = int(threadIdx.x); i < rows * kDim; i += int(blockDim.x)) {
    const int row = i / kDim, column = i % kDim;
    float most = -INFINITY, l = 0, o = 0;
    for (int w = 0; w < warps; ++w) most = fmaxf(most, m[w][row][0]);
    for (int w = 0; w < warps; ++w) {
      const auto* mix = reinterpret_cast<const Shared<kDim>*>(
          reinterpret_cast<const std::byte*>(mixes) + w * mix_bytes);
      const float scale = m[w][row][0] == -INFINITY ? 0 : power_of_2(m[w][row][0] - most);
      l += scale * m[w][row][1];
      o += scale * mix->o[row][column];
    }
    if (column == 0) out.m[at + row] = most, out.l[at + row] = l;
    if (column < t.dim && most != -INFINITY) out.o[(at + row) * t.dim + column] = o;
  }
}

// grid: splits, KV heads, sixteens of a group. Shared: a ring for each warp.
template <int kDim, bool kDirect>
__global__ void __launch_bounds__(32 * kWarps, kDim > 128 ? 1
                                               : kDirect  ? 2
                                                          : 3)
    attend(Task t, Cache cache, const int* position, Partials out) {
  extern __shared__ __align__(16) std::byte shared[];
  __shared__ float m[kWarps][kGroupRows][2];
  let_next_start();
  const int lane = int(threadIdx.x) % 32, warp = int(threadIdx.x) / 32;
  const int warps = int(blockDim.x) / 32, head = int(blockIdx.y), first_head = head * t.group;
  const int own_bytes = kStages * t.stage_bytes;
  std::byte* own = shared + warp * own_bytes;
  const Ring<kDim, kDirect> ring{keys_of(cache, t.layer, head),
                                 values_of(cache, t.layer, head),
                                 own,
                                 t.stage_bytes,
                                 t.dim,
                                 lane};
  if (!t.settled) wait_for_inputs();
  const Span span = span_of_block(*position, t.window);
  start_split(ring, span, span.first + warp, warps, t.settled);
  std::uint32_t q[kDim / 16][4];
  load_queries<kDim, kDirect>(t, first_head, lane, q);
  Mix<kDim> mix;
  attend_split(ring, span, span.first + warp, warps, q, mix);
  __syncwarp();
  show<kDim, kDirect>(mix, lane, *reinterpret_cast<Shared<kDim>*>(own), m[warp]);
  __syncthreads();
  write_partial(t, reinterpret_cast<const Shared<kDim>*>(shared), own_bytes, m, warps, first_head,
                out);
}

int shared_memory_of_a_block() {
  int device = 0, bytes = 0;
  RIGCAST_CUDA_CALL(cudaGetDevice(&device));
  RIGCAST_CUDA_CALL(
      cudaDeviceGetAttribute(&bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device));
  return bytes;
}

template <int kDim, bool kDirect>
void launch_attend(const Stream& stream, Task t, const Cache& cache, int splits,
                   const int* position, const Partials& out) {
  const auto kernel = attend<kDim, kDirect>;
  // Words are read in pairs, also the last one of a tile: 4 bytes more.
  t.stage_bytes =
      kDirect ? 2 * Ring<kDim, true>::kTileBytes : kTileRows * (cache.k_row + cache.v_row) + 4;
  // A mix takes the ring's place in the end.
  const int least = (int(sizeof(Shared<kDim>)) + kStages - 1) / kStages;
  t.stage_bytes = (std::max(t.stage_bytes, least) + 15) / 16 * 16;
  const int own = kStages * t.stage_bytes;
  static const int most = shared_memory_of_a_block() - 1024;  // what the kernel declares itself
  const int warps = std::clamp(most / own, 1, kWarps);
  RIGCAST_CUDA_CALL(
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, warps * own));
  const dim3 grid(unsigned(splits), unsigned(cache.kv_heads),
                  unsigned((t.group + kGroupRows - 1) / kGroupRows));
  launch(stream, {grid, dim3(unsigned(32 * warps)), std::size_t(warps * own)}, Start::kEarly,
         kernel, t, cache, position, out);
}

template <int kDim>
void launch_width(const Stream& stream, const Task& t, const Cache& cache, int splits,
                  const int* position, const Partials& out) {
  const bool direct = cache.k_type == QuantFormat::kF16 && cache.v_type == QuantFormat::kF16;
  (direct ? launch_attend<kDim, true> : launch_attend<kDim, false>)(stream, t, cache, splits,
                                                                    position, out);
}

}  // namespace

int attention_splits(int tokens_upper_bound, int kv_heads, int multiprocessors, bool halves) {
  constexpr int kLeastTokens = kWarps * kTileRows;  // a tile for every warp
  // As many blocks as run at once; those that turn rows into halves are smaller and need the others
  // beside them more.
  const int fill = (halves ? 2 : 3) * multiprocessors / kv_heads;
  const int work = (tokens_upper_bound + kLeastTokens - 1) / kLeastTokens;
  return std::max(1, std::min(fill, work));
}

void attend_partially(const Stream& stream, const DecodeAttention& attention, const Cache& cache,
                      int layer, int splits, const int* position, const Partials& partials) {
  const Task t{attention.queries,
               attention.heads,
               attention.heads / cache.kv_heads,
               cache.head_dim,
               attention.window,
               layer,
               attention.settled,
               0};
  const auto run = t.dim <= 64    ? launch_width<64>
                   : t.dim <= 96  ? launch_width<96>
                   : t.dim <= 128 ? launch_width<128>
                                  : launch_width<256>;
  run(stream, t, cache, splits, position, partials);
}

}  // namespace rigcast::engine::cuda
