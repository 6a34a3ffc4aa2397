#pragma once
// Device code: attention of a few queries to tiles of 16 tokens, by one warp.

#include <type_traits>

#include "engine/kernels/cuda/attention/attention_tiles.cuh"
#include "engine/kernels/cuda/attention/soft_cap.cuh"
#include "engine/kernels/cuda/attention/split_tiles.cuh"

namespace rigcast::engine::cuda {

inline constexpr int kGroupRows =
    16;  // query heads that share a read of the cache: the rows of a product

// A warp's tiles that are being copied or used. F16 tiles of wide heads are large, and all tiles of
// heads wider than 256: with two of them there is room for more warps, which hide each other's
// latency.
template <int kDim, bool kDirect>
inline constexpr int kStages = kDim > (kDirect ? 128 : 256) ? 2 : 3;

// The tokens [from, to) of the context, of which [from, stored) are in the cache, and the tiles
// [first, end) of this block. The last token is the new one; where it is not stored yet, its rows
// are NewRows.
struct TokenSpan {
  int from, to, stored, first, end;

  __device__ int newest() const { return to - 1; }
  __device__ bool has_new_rows() const { return stored < to; }
  __device__ bool sees_newest() const { return first < end && end * kTileRows >= to; }
};
__device__ inline TokenSpan tokens_of_block(int position, int window, int first_token,
                                            bool stored) {
  TokenSpan s;
  s.to = position + 1;
  s.stored = stored ? s.to : position;
  s.from = max(first_token, first_seen(position, window));
  const int first = s.from / kTileRows, tiles = (s.to + kTileRows - 1) / kTileRows - first;
  const int split = int(blockIdx.x), splits = int(gridDim.x), even = tiles / splits;
  // The first ones have one more, and the last one the work for the new token.
  const int more = tiles - even * splits;
  s.first = first + split * even + min(split, more);
  s.end = s.first + even + (split < more ? 1 : 0);
  return s;
}
// The same for a row of a step whose keys and values are stored. Splits depend on the row's own
// position, and on nothing else of the step but how many are wanted.
__device__ inline TokenSpan tokens_of_split(int position, int window, int wanted) {
  TokenSpan s;
  s.to = s.stored = position + 1;
  s.from = max(0, first_seen(position, window));
  const int first = s.from / kTileRows, end = (s.to + kTileRows - 1) / kTileRows;
  const int tiles = split_tiles(end - first, wanted);
  s.first = min(end, first + int(blockIdx.x) * tiles);
  s.end = min(end, s.first + tiles);
  return s;
}

// The new token's rows of one head as the cache holds them, in shared memory.
struct NewRows {
  const std::byte* key;
  const std::byte* value;
};

// Copies a row, in pieces of T.
template <class T>
__device__ __forceinline__ void copy_row(const std::byte* from, std::byte* to, int bytes,
                                         int thread, int threads) {
#pragma unroll 1
  for (int i = thread; i < bytes / int(sizeof(T)); i += threads)
    reinterpret_cast<T*>(to)[i] = reinterpret_cast<const T*>(from)[i];
}
// Rows of F16 have pieces of 16 bytes; those of quantized blocks begin anywhere.
template <bool kDirect>
using RowPiece = std::conditional_t<kDirect, uint4, std::uint16_t>;

// A warp's ring buffer of stages, each with a tile of keys and one of values. kDirect: both are
// F16, and copies put each row where products read it. Otherwise rows are copied as they are, one
// after the other.
template <int kDim, bool kDirect>
struct Ring {
  static constexpr int kValues = kValueDim<kDim>;
  static constexpr int kRowBytes = kTileStride<kDim> * 2, kTileBytes = kTileRows * kRowBytes;
  static constexpr int kValueRowBytes = kTileStride<kValues> * 2;
  static constexpr int kStageBytes = kTileBytes + kTileRows * kValueRowBytes;  // where direct

  HeadRows keys, values;
  std::byte* place;  // this warp's
  int stage_bytes, dim, lane;
  int part = 0;  // of the values; always 0 if there is one

  /// The first of this block's elements of values, and how many there are.
  __device__ int first_value() const { return kValueParts<kDim> == 1 ? 0 : part * kValues; }
  __device__ int value_count() const {
    return kValueParts<kDim> == 1 ? dim : min(kValues, dim - first_value());
  }
  __device__ std::byte* keys_at(int stage) const { return place + stage * stage_bytes; }
  __device__ std::byte* values_at(int stage) const {
    return keys_at(stage) + (kDirect ? kTileBytes : kTileRows * keys.row_bytes);
  }

  __device__ void start(int tile, int stage, const TokenSpan& span) const {
    const int token = tile * kTileRows, block = token / keys.block_tokens;
    const int of_block = token - block * keys.block_tokens;
    const Bytes at = keys.blocks[block];
    copy<kDim>(keys.row(at, of_block), keys.row_bytes, token, span, 0, keys_at(stage));
    copy<kValues>(values.row(at, of_block), values.row_bytes, token, span, first_value(),
                  values_at(stage));
  }

  // Copies elements [first, first + kWidth) of rows, or rows as they are.
  template <int kWidth>
  __device__ __forceinline__ void copy(Bytes from, int row_bytes, int token, const TokenSpan& span,
                                       int first, std::byte* to) const {
    const std::uint32_t at = shared_address(to);
    if constexpr (kDirect) {
      constexpr int kChunks = kWidth / 8;
      if ((kChunks % 32 == 0 || 32 % kChunks == 0) && dim == kDim)
        return copy_whole<kWidth>(from + first * 2, token, span, at);
      constexpr int kBytes = kTileStride<kWidth> * 2;
#pragma unroll 1
      for (int i = lane; i < kTileRows * kChunks; i += 32) {
        const int row = i / kChunks, chunk = i - row * kChunks;
        const bool there =
            token + row >= span.from && token + row < span.stored && first + chunk * 8 < dim;
        copy_async_or_zero(at + unsigned(row * kBytes + chunk * 16),
                           from + (there ? (row * dim + first) * 2 + chunk * 16 : 0), there);
      }
    } else {
      const int begin = max(0, span.from - token) * row_bytes;
      const int end = min(kTileRows, span.stored - token) * row_bytes;
#pragma unroll 2
      for (int i = lane * 16; i < kTileRows * row_bytes; i += 512)
        if (i + 16 > begin && i < end) copy_async_or_zero(at + unsigned(i), from + i, true);
    }
  }

  // The same of F16 rows as wide as the kernel's: what a step adds to both addresses is known when
  // this is compiled. Few instructions count here, since a short context has each fetched once.
  template <int kWidth>
  __device__ __forceinline__ void copy_whole(Bytes from, int token, const TokenSpan& span,
                                             std::uint32_t to) const {
    constexpr int kChunks = kWidth / 8, kBytes = kTileStride<kWidth> * 2;
    const int row = lane / kChunks, chunk = lane % kChunks;
    from += (row * kDim + chunk * 8) * 2;
    to += unsigned(row * kBytes + chunk * 16);
    const int seen = token + row - span.from;
    const auto count = unsigned(max(0, span.stored - span.from));
#pragma unroll
    for (int i = 0; i < kTileRows * kChunks; i += 32) {
      const int rows = i / kChunks, chunks = i % kChunks;
      copy_async_or_zero(to + unsigned(rows * kBytes + chunks * 16),
                         from + (rows * kDim + chunks * 8) * 2, unsigned(seen + rows) < count);
    }
  }

  // Copies the new token's rows into the tile, after the tile's own copies have arrived.
  __device__ void copy_newest(int stage, int row, const NewRows& rows) const {
    using T = RowPiece<kDirect>;
    copy_row<T>(rows.key, keys_at(stage) + row * (kDirect ? int(kRowBytes) : keys.row_bytes),
                keys.row_bytes, lane, 32);
    if constexpr (kDirect)
      copy_row<T>(rows.value + first_value() * 2, values_at(stage) + row * int(kValueRowBytes),
                  value_count() * 2, lane, 32);
    else
      copy_row<T>(rows.value, values_at(stage) + row * values.row_bytes, values.row_bytes, lane,
                  32);
    __syncwarp();
  }

  // Clears rows of values that are masked: a NaN there would spoil products with zero
  // probabilities.
  __device__ void clear_masked(int stage, int token, const TokenSpan& span) const {
    for (int row = 0; row < kTileRows; ++row)
      if (token + row < span.from || token + row >= span.to)
        for (int i = lane * 2; i < values.row_bytes; i += 64)
          *reinterpret_cast<std::uint16_t*>(values_at(stage) + row * values.row_bytes + i) = 0;
    __syncwarp();
  }
};

// The accumulator of a warp: rows lane / 4 and lane / 4 + 8 of the group, in the layout of a
// product's result.
template <int kDim>
struct SoftmaxAccumulator {
  float o[kDim / 8][4] = {};
  float m[2] = {-INFINITY, -INFINITY};
  float l[2] = {};  // over this lane's columns

  // Turns scores into probabilities of 16 tokens, in the layout of a product's left operand.
  __device__ void weigh(float (&s)[2][4], std::uint32_t (&p)[4]) {
    float scale[2];
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const float largest =
          row_max(fmaxf(fmaxf(s[0][2 * h], s[0][2 * h + 1]), fmaxf(s[1][2 * h], s[1][2 * h + 1])));
      const float m_new = fmaxf(m[h], exponent_for(largest));
      scale[h] = m[h] == -INFINITY ? 1.0f : power_of_2(m[h] - m_new);  // of zeros
      m[h] = m_new;
#pragma unroll
      for (int n = 0; n < 2; ++n) {
        const float a = power_of_2(s[n][2 * h] - m_new), b = power_of_2(s[n][2 * h + 1] - m_new);
        s[n][2 * h] = a;
        s[n][2 * h + 1] = b;
        p[2 * n + h] = pack_half2(a, b);
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

// The element of the head that step k of a product with quantized blocks has in register i of a
// lane: such products go through a block's words of four in the order in which lanes read them.
__device__ inline int query_column(int k, int i, int lane) {
  return k / 2 * 32 + (k % 2 * 4 + lane % 4) * 4 + i / 2 * 2;
}

// The left operand of step k of a product. Rows of queries are aligned to 16 bytes.
struct QueryStep {
  std::uint32_t r[4];
};
template <int kDim>
using QueriesOfGroup = __half[kGroupRows][kTileStride<kDim>];

template <int kDim, bool kDirect>
__device__ __forceinline__ QueryStep query_step(const QueriesOfGroup<kDim>& queries, int k,
                                                int lane) {
  QueryStep step;
  if constexpr (kDirect) {
    load_tiles(step.r, shared_address(queries[lane % 16]) + unsigned(lane / 16 * 16 + k * 32));
  } else {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const __half* row = queries[lane / 4 + i % 2 * 8];
      step.r[i] = *reinterpret_cast<const std::uint32_t*>(row + query_column(k, i, lane));
    }
  }
  return step;
}

// All of them in registers, or, of wide heads and where a step is one load, read from shared memory
// for every tile: a thread block with fewer registers finds room beside those of the kernel before
// it.
template <int kDim, bool kDirect>
struct Queries {
  static constexpr bool kHeld = !kDirect && kDim <= 256;
  QueryStep held[kHeld ? kDim / 16 : 1];
  const QueriesOfGroup<kDim>& rows;
  int lane;

  __device__ __forceinline__ Queries(const QueriesOfGroup<kDim>& queries, int lane_)
      : rows(queries), lane(lane_) {
    if constexpr (kHeld) {
#pragma unroll
      for (int k = 0; k < kDim / 16; ++k) held[k] = query_step<kDim, kDirect>(queries, k, lane);
    }
  }
  __device__ __forceinline__ QueryStep operator[](int k) const {
    if constexpr (kHeld)
      return held[k];
    else
      return query_step<kDim, kDirect>(rows, k, lane);
  }
};

// Scores of 16 tokens, with two sums for each: a single chain of products would stall on its
// latency.
template <int kDim>
__device__ __forceinline__ void score_fp16(const std::byte* keys, int lane,
                                           const Queries<kDim, true>& q, float (&s)[2][4]) {
  constexpr int kRowBytes = kTileStride<kDim> * 2;
  const std::uint32_t at =
      shared_address(keys) + unsigned((lane / 16 * 8 + lane % 8) * kRowBytes + lane / 8 % 2 * 16);
  float odd[2][4] = {};
#pragma unroll
  for (int k = 0; k < kDim / 16; ++k) {
    std::uint32_t b[4];
    load_tiles(b, at + unsigned(k * 32));
    const QueryStep step = q[k];
    multiply_add(k % 2 == 0 ? s[0] : odd[0], step.r, b[0], b[1]);
    multiply_add(k % 2 == 0 ? s[1] : odd[1], step.r, b[2], b[3]);
  }
#pragma unroll
  for (int i = 0; i < 8; ++i) s[i / 4][i % 4] += odd[i / 4][i % 4];
}

template <int kDim>
__device__ __forceinline__ void mix_fp16(const std::byte* values, int lane,
                                         const std::uint32_t (&p)[4], float (&o)[kDim / 8][4]) {
  constexpr int kRowBytes = kTileStride<kDim> * 2;
  const std::uint32_t at =
      shared_address(values) + unsigned(lane % 16 * kRowBytes + lane / 16 * 16);
#pragma unroll
  for (int d = 0; d < kDim / 16; ++d) {
    std::uint32_t b[4];
    load_tiles_transposed(b, at + unsigned(d * 32));
    multiply_add(o[2 * d], p, b[0], b[1]);
    multiply_add(o[2 * d + 1], p, b[2], b[3]);
  }
}

// Scores on quantized rows of the cache, which lanes convert to F16 themselves. Tokens and elements
// are ordered so that a lane reads four neighbours and all lanes read different banks: column n of
// product j is token 2 n + j.
template <QuantFormat kType, int kDim, bool kWhole>
__device__ __forceinline__ void score_blocks(int keys, int row_bytes, int dim, int lane,
                                             const Queries<kDim, false>& q, float (&s)[2][4]) {
  const int row = keys + lane / 4 * 2 * row_bytes;
  const RowWords<kType> rows[2] = {{row, lane % 4}, {row + row_bytes, lane % 4}};
#pragma unroll
  for (int block = 0; block < kDim / 32; ++block) {
    if (!kWhole && block * 32 >= dim) break;
    const QueryStep steps[2] = {q[2 * block], q[2 * block + 1]};
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      const uint2 low = rows[j].fp16(block), high = rows[j].template fp16<4>(block);
      multiply_add(s[j], steps[0].r, low.x, low.y);
      multiply_add(s[j], steps[1].r, high.x, high.y);
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
    for (int i = 0; i < 4; ++i) v[i] = rows[i].fp16(block);
    float(*const to)[4] = o + 4 * block;
    multiply_add(to[0], p, low_half2(v[0].x, v[2].x), low_half2(v[1].x, v[3].x));
    multiply_add(to[1], p, high_half2(v[0].x, v[2].x), high_half2(v[1].x, v[3].x));
    multiply_add(to[2], p, low_half2(v[0].y, v[2].y), low_half2(v[1].y, v[3].y));
    multiply_add(to[3], p, high_half2(v[0].y, v[2].y), high_half2(v[1].y, v[3].y));
  }
}

// Calls `blocks` for the type. Heads as wide as the kernel need no check of each block, so that
// their loads overlap.
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
                                           const Queries<kDim, kDirect>& q, float (&s)[2][4]) {
  const std::byte* keys = ring.keys_at(stage);
  if constexpr (kDirect)
    score_fp16<kDim>(keys, ring.lane, q, s);
  else
    for_type<kDim>(ring.keys.type, ring.dim, [&]<QuantFormat kType, bool kWhole>() {
      score_blocks<kType, kDim, kWhole>(shared_offset(keys), ring.keys.row_bytes, ring.dim,
                                        ring.lane, q, s);
    });
}

// Blocks of 32 values before the block's part: parts begin at a multiple of 256, which keeps
// RowWords aligned as rows are.
template <int kDim, bool kDirect>
__device__ __forceinline__ void mix_tile(const Ring<kDim, kDirect>& ring, int stage,
                                         const std::uint32_t (&p)[4],
                                         float (&o)[kValueDim<kDim> / 8][4]) {
  constexpr int kValues = kValueDim<kDim>;
  const std::byte* values = ring.values_at(stage);
  if constexpr (kDirect) {
    mix_fp16<kValues>(values, ring.lane, p, o);
  } else {
    const int row_bytes = ring.values.row_bytes;
    if constexpr (kValueParts < kDim >> 1)
      values += ring.first_value() / 32 * (row_bytes / (ring.dim / 32));
    for_type<kValues>(ring.values.type, ring.value_count(), [&]<QuantFormat kType, bool kWhole>() {
      mix_blocks<kType, kValues, kWhole>(shared_offset(values), row_bytes, ring.value_count(),
                                         ring.lane, p, o);
    });
  }
}

template <int kDim, bool kDirect>
__device__ void attend_tile(const Ring<kDim, kDirect>& ring, int tile, int stage,
                            const TokenSpan& span, const NewRows& newest,
                            const Queries<kDim, kDirect>& q, const SoftCap& cap,
                            SoftmaxAccumulator<kValueDim<kDim>>& mix) {
  const int token = tile * kTileRows, lane = ring.lane;
  if (span.has_new_rows() && span.newest() < token + kTileRows)
    ring.copy_newest(stage, span.newest() - token, newest);
  float s[2][4] = {};
  score_tile(ring, stage, q, s);
  if (cap) {
#pragma unroll
    for (int i = 0; i < 8; ++i) s[i / 4][i % 4] = cap(s[i / 4][i % 4]);
  }
  if (token < span.from || token + kTileRows > span.to) {
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const int n = lane % 4 * 2 + i % 2, at = token + (kDirect ? i / 4 * 8 + n : 2 * n + i / 4);
      if (at < span.from || at >= span.to) s[i / 4][i % 4] = -INFINITY;
    }
    if constexpr (!kDirect) ring.clear_masked(stage, token, span);
  }
  std::uint32_t p[4];
  mix.weigh(s, p);
  mix_tile(ring, stage, p, mix.o);
}

}  // namespace rigcast::engine::cuda
