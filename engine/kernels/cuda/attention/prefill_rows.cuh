#pragma once
// What kernels of causal attention share: the rows that a block computes, the tokens that these
// see, softmax, and where results are written. S is the shape of a block: kRows of query rows, of
// which a warp has kProducts times 16; kKeys tokens at once, whose values have kValues elements.

#include <algorithm>
#include <cmath>

#include "engine/cuda/launch.cuh"
#include "engine/kernels/cuda/attention/attention_tiles.cuh"
#include "engine/kernels/cuda/attention/prefill_parameters.cuh"

namespace rigcast::engine::cuda {

inline constexpr int kMinSplitTiles = 4;   // with fewer, merging takes longer than is saved
inline constexpr float kNoScore = -1e30f;  // the initial m; finite, so that a row may see no token
                                           // of a tile

// The query heads of a KV head's group are rows, token by token: row r is head r % group of token r
// / group. A block computes kRows of them, so each read of the cache serves the whole group.
struct PrefillTask {
  const __half* queries;
  HalfRows out;
  int heads, group, dim, window, layer, rows;
  SoftCap cap;
  Sinks sinks;
  Partials partials{};  // [token][split][heads], where there are splits
};

inline PrefillTask task_of(const PrefillAttention& a, const Cache& cache, int layer,
                           const HalfRows& out) {
  const int group = a.heads / cache.kv_heads;
  return {a.queries, out,   a.heads,          group, cache.head_dim,
          a.window,  layer, a.tokens * group, a.cap, a.sinks};
}

__device__ __forceinline__ const __half* query_row(const PrefillTask& t, int head, int row) {
  const int token = row / t.group;
  return t.queries +
         (std::int64_t(token) * t.heads + head * t.group + (row - token * t.group)) * t.dim;
}

// The accumulator of a warp: rows lane / 4 and lane / 4 + 8 of product i.
template <class S>
struct PrefillAccumulator {
  float o[S::kProducts][S::kValues / 8][4];
  float m[S::kProducts][2], l[S::kProducts][2];

  __device__ __forceinline__ void clear() {
#pragma unroll
    for (int i = 0; i < S::kProducts; ++i) {
      m[i][0] = m[i][1] = kNoScore;
      l[i][0] = l[i][1] = 0;
#pragma unroll
      for (int d = 0; d < S::kValues / 8; ++d)
#pragma unroll
        for (int k = 0; k < 4; ++k) o[i][d][k] = 0;
    }
  }

  using Scales = float[S::kProducts][2];

  // Turns scores into probabilities.
  __device__ __forceinline__ void weigh(typename S::Scores& s) {
    Scales scale;
    if (raise(s, scale)) rescale(scale);
    exponentiate(s);
  }

  // Raises m to the scores; true: it has changed for some lane, and sums must be rescaled. m is a
  // whole number near the largest score, so it seldom does.
  __device__ __forceinline__ bool raise(const typename S::Scores& s, Scales& scale) {
    bool moved = false;
#pragma unroll
    for (int i = 0; i < S::kProducts; ++i)
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        float largest = fmaxf(s[i][0][2 * h], s[i][0][2 * h + 1]);
#pragma unroll
        for (int n = 1; n < S::kKeys / 8; ++n)
          largest = fmaxf(largest, fmaxf(s[i][n][2 * h], s[i][n][2 * h + 1]));
        const float m_new = fmaxf(m[i][h], exponent_for(row_max(largest)));
        scale[i][h] = power_of_2(m[i][h] - m_new);
        moved |= m[i][h] != m_new;
        m[i][h] = m_new;
      }
    return __any_sync(~0u, moved);
  }

  __device__ __forceinline__ void exponentiate(typename S::Scores& s) {
#pragma unroll
    for (int i = 0; i < S::kProducts; ++i)
#pragma unroll
      for (int n = 0; n < S::kKeys / 8; ++n)
#pragma unroll
        for (int k = 0; k < 4; ++k) {
          s[i][n][k] = power_of_2(s[i][n][k] - m[i][k / 2]);
          l[i][k / 2] += s[i][n][k];
        }
  }

  __device__ __forceinline__ void rescale(const Scales& scale) {
    rescale_l(scale);
    rescale_o(scale);
  }
  __device__ __forceinline__ void rescale_l(const Scales& scale) {
#pragma unroll
    for (int i = 0; i < S::kProducts; ++i) l[i][0] *= scale[i][0], l[i][1] *= scale[i][1];
  }
  __device__ __forceinline__ void rescale_o(const Scales& scale) {
#pragma unroll
    for (int i = 0; i < S::kProducts; ++i)
#pragma unroll
      for (int h = 0; h < 2; ++h) {
#pragma unroll
        for (int d = 0; d < S::kValues / 8; ++d) {
          o[i][d][2 * h] *= scale[i][h];
          o[i][d][2 * h + 1] *= scale[i][h];
        }
      }
  }
};

template <class S>
__device__ __forceinline__ void bound_scores(const SoftCap& cap, typename S::Scores& s) {
#pragma unroll
  for (int i = 0; i < S::kProducts; ++i)
#pragma unroll
    for (int n = 0; n < S::kKeys / 8; ++n)
#pragma unroll
      for (int k = 0; k < 4; ++k) s[i][n][k] = cap(s[i][n][k]);
}

// The positions of a lane's rows, and the tokens that they see. `kPieces`: the context is cut into
// pieces of `window` tokens.
template <class S, bool kPieces>
struct VisibleTokens {
  int at[S::kProducts][2];
  int window;
  int first, last;  // positions of the block's rows

  __device__ VisibleTokens(const PrefillTask& t, int position, int first_row, int lane, int warp)
      : window(kPieces        ? -t.window
               : t.window > 0 ? t.window
                              : 1 << 30) {
    first = position + first_row / t.group;
    last = position + min(first_row + S::kRows - 1, t.rows - 1) / t.group;
#pragma unroll
    for (int i = 0; i < S::kProducts; ++i)
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const int row = first_row + (warp * S::kProducts + i) * 16 + lane / 4 + 8 * h;
        at[i][h] = position + min(row, t.rows - 1) / t.group;
      }
  }

  __device__ int begin() const {
    return kPieces ? first / window * window : max(0, first + 1 - window);
  }
  __device__ int first_tile() const { return begin() / S::kKeys; }
  __device__ int end_tile() const { return last / S::kKeys + 1; }

  __device__ __forceinline__ void mask(int token, int lane, typename S::Scores& s) const {
    if constexpr (kPieces) {
      mask_pieces(token, lane, s);
    } else {
      if (token + S::kKeys - 1 <= first && token > last - window) return;
#pragma unroll
      for (int i = 0; i < S::kProducts; ++i)
#pragma unroll
        for (int n = 0; n < S::kKeys / 8; ++n)
#pragma unroll
          for (int k = 0; k < 4; ++k) {
            const int key = token + n * 8 + lane % 4 * 2 + k % 2, own = at[i][k / 2];
            if (key > own || key <= own - window) s[i][n][k] = -INFINITY;
          }
    }
  }

  __device__ __forceinline__ void mask_pieces(int token, int lane, typename S::Scores& s) const {
    if (token + S::kKeys - 1 <= first && token >= last / window * window) return;
#pragma unroll
    for (int i = 0; i < S::kProducts; ++i)
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const int own = at[i][h], from = own / window * window;
#pragma unroll
        for (int n = 0; n < S::kKeys / 8; ++n)
#pragma unroll
          for (int k = 0; k < 2; ++k) {
            const int key = token + n * 8 + lane % 4 * 2 + k;
            if (key > own || key < from) s[i][n][2 * h + k] = -INFINITY;
          }
      }
  }
};

// Writes a split's part of each row.
template <class S>
__device__ void write_partials(const PrefillTask& t, int head, int first_row, int first,
                               const PrefillAccumulator<S>& mix, int lane) {
#pragma unroll
  for (int i = 0; i < S::kProducts; ++i)
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const float l = row_sum(mix.l[i][h]);
      const int row = first_row + i * 16 + lane / 4 + 8 * h, token = row / t.group;
      if (row >= t.rows) continue;
      const std::int64_t at = (std::int64_t(token) * gridDim.z + blockIdx.z) * t.heads +
                              head * t.group + (row - token * t.group);
      if (first == 0 && lane % 4 == 0) {
        t.partials.m[at] = l == 0 ? -INFINITY : mix.m[i][h];
        t.partials.l[at] = l;
      }
      float* to = t.partials.o + at * t.dim + first + lane % 4 * 2;
#pragma unroll
      for (int d = 0; d < S::kValues / 8; ++d)
        if (first + d * 8 < t.dim)
          *reinterpret_cast<float2*>(to + d * 8) =
              make_float2(mix.o[i][d][2 * h], mix.o[i][d][2 * h + 1]);
    }
}

// Writes number `chunk` of the pieces of 16 bytes that a row's columns from `at` on make when they
// are tiled. Heads of another width than whole fours of units have pieces of 4 bytes.
__device__ __forceinline__ void write_tiled(const PrefillTask& t, int token, int at,
                                            const __half* from, int chunk) {
  const int width = t.heads * t.dim;
  const auto pair = [&](int column) { return __half2(from[column], from[column + 2]); };
  if (t.dim % 128 == 0) {
    const int first = chunk / 16 * 128 + chunk % 16 / 4 * 4 + chunk % 4 / 2 * 16 + chunk % 2;
    __half2 pairs[4];
#pragma unroll
    for (int unit = 0; unit < 4; ++unit) pairs[unit] = pair(first + unit * 32);
    *reinterpret_cast<uint4*>(t.out.to + index_in(t.out, token, width, at + first)) =
        *reinterpret_cast<const uint4*>(pairs);
    return;
  }
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const int column = chunk * 8 + i / 2 * 4 + i % 2;
    *reinterpret_cast<__half2*>(t.out.to + index_in(t.out, token, width, at + column)) =
        pair(column);
  }
}

// Writes each warp's rows through the shared memory of its queries, 16 bytes at a time: elements
// from `first` on.
template <class S>
__device__ void write_rows(const PrefillTask& t, int head, int first_row, int first,
                           const PrefillAccumulator<S>& mix, __half* own, int lane) {
#pragma unroll
  for (int i = 0; i < S::kProducts; ++i)
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      float l = row_sum(mix.l[i][h]);
      if (t.sinks) {
        const int query = first_row + i * 16 + lane / 4 + 8 * h;
        l += sink_term(t.sinks[head * t.group + query % t.group], mix.m[i][h]);
      }
      const float scale = 1.0f / l;
      __half* row = own + (i * 16 + lane / 4 + 8 * h) * S::kStride + lane % 4 * 2;
#pragma unroll
      for (int d = 0; d < S::kValues / 8; ++d)
        *reinterpret_cast<std::uint32_t*>(row + d * 8) =
            pack_half2(mix.o[i][d][2 * h] * scale, mix.o[i][d][2 * h + 1] * scale);
    }
  __syncwarp();
  const int chunks = min(S::kValues, t.dim - first) / 8;
  for (int i = lane; i < S::kProducts * 16 * chunks; i += 32) {
    const int row = i / chunks, chunk = i - row * chunks;
    if (first_row + row >= t.rows) break;
    const int token = (first_row + row) / t.group;
    const int at = (head * t.group + first_row + row - token * t.group) * t.dim + first;
    const __half* from = own + row * S::kStride;
    if (t.out.tiled == 0)
      *reinterpret_cast<uint4*>(t.out.to +
                                index_in(t.out, token, t.heads * t.dim, at + chunk * 8)) =
          *reinterpret_cast<const uint4*>(from + chunk * 8);
    else
      write_tiled(t, token, at, from, chunk);
  }
}

struct TileRange {
  int begin, end;
};

// The tiles of this block's split of the context; none, where there are fewer tiles than splits.
__device__ __forceinline__ TileRange tiles_of_split(int begin, int end) {
  const int tiles = end - begin, splits = int(gridDim.z), split = int(blockIdx.z);
  return {begin + tiles * split / splits, begin + tiles * (split + 1) / splits};
}

// As many splits as run at once, if each has a few tiles and there is memory for its results.
template <class S>
int splits_of(const PrefillAttention& a, const Cache& cache) {
  const int group = a.heads / cache.kv_heads, width = a.heads * cache.head_dim;
  if (a.partials == nullptr || width % 32 != 0) return 1;
  const int parts = (a.tokens * group + S::kRows - 1) / S::kRows;
  const int blocks = parts * cache.kv_heads * kValueParts<S::kDim>;
  const int most = device_facts().multiprocessors * S::kBlocks / blocks;
  const int seen = a.window == 0 ? a.context : std::min(a.context, std::abs(a.window) + a.tokens);
  const std::int64_t room = a.partial_floats / (std::int64_t(a.tokens) * (width + 2 * a.heads));
  return std::max(1, int(std::min<std::int64_t>({most, seen / S::kKeys / kMinSplitTiles, room})));
}

inline Partials partials_of(const PrefillAttention& a, std::int64_t rows, int head_dim) {
  float* const sums = a.partials + rows * head_dim;
  return {sums, sums + rows, a.partials};
}

}  // namespace rigcast::engine::cuda
