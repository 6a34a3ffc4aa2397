#include "engine/kernels/cuda/attention/prefill_attention.cuh"

#include <algorithm>
#include <cmath>

#include "engine/cuda/launch.cuh"
#include "engine/kernels/cuda/attention/attention_tiles.cuh"
#include "engine/kernels/cuda/attention/hopper_attention.cuh"
#include "engine/kernels/cuda/attention/prefill_rows.cuh"

namespace rigcast::engine::cuda {
namespace {

constexpr int kWarps = 4;
// The shape of a block: kProducts products of 16 rows for each warp, kKeys keys at once.
template <int kWidth, int kProductsOfWarp, int kKeysAtOnce = kWidth <= 128 ? 64 : 32,
          int kWarpsOfBlock = kWarps>
struct Sizes {
  static constexpr int kDim = kWidth, kProducts = kProductsOfWarp, kThreads = 32 * kWarpsOfBlock;
  static constexpr int kKeys = kKeysAtOnce, kValues = kValueDim<kDim>;
  static constexpr int kRows = kWarpsOfBlock * kProducts * 16;
  static constexpr int kStride = kTileStride<kDim>, kRowBytes = kStride * 2;
  static constexpr int kQueryBytes = kRows * kRowBytes, kTileBytes = kKeys * kRowBytes;
  static constexpr int kValueStride = kTileStride<kValues>;
  static constexpr int kValueTileBytes = kKeys * kValueStride * 2;
  // Blocks per multiprocessor.
  static constexpr int kBlocks = kDim > 128 ? 1 : kProducts == 2 ? 2 : 3;
  using Scores = float[kProducts][kKeys / 8][4];
};

template <class S>
int parts_of(const PrefillTask& t) {
  return (t.rows + S::kRows - 1) / S::kRows;
}

template <class S>
__device__ void start_queries(const PrefillTask& t, int head, int first_row, std::uint32_t to) {
  constexpr int kChunks = S::kDim / 8;
#pragma unroll 4
  for (int i = int(threadIdx.x); i < S::kRows * kChunks; i += S::kThreads) {
    const int row = i / kChunks, chunk = i - row * kChunks;
    const bool some = first_row + row < t.rows && chunk * 8 < t.dim;
    const __half* from = query_row(t, head, some ? first_row + row : 0) + (some ? chunk * 8 : 0);
    copy_async_or_zero(to + unsigned(row * S::kRowBytes + chunk * 16),
                       reinterpret_cast<Bytes>(from), some);
  }
}

// The keys, or the values, of kKeys tokens: kWidth elements of each, from `first` on. F16 rows are
// copied to where products read them; other rows are copied as they are, and finish() converts them
// to F16.
template <class S, bool kDirect, int kWidth>
struct Tile {
  static constexpr int kStride = kTileStride<kWidth>;

  HeadRows rows;
  std::byte* place;
  std::byte* raw;       // where not direct
  int dim, begin, end;  // tokens outside become zeros
  int first = 0;        // 0 where kWidth is S::kDim

  __device__ __forceinline__ int skipped() const { return kWidth == S::kDim ? 0 : first; }

  __device__ __forceinline__ bool holds(int token) const {
    return unsigned(token - begin) < unsigned(end - begin);
  }

  __device__ __forceinline__ void start(int token) const {
    if constexpr (kDirect)
      start_fp16(token);
    else
      start_raw(token);
  }

  __device__ __forceinline__ void start_fp16(int token) const {
    constexpr int kChunks = kWidth / 8, kStep = S::kThreads / kChunks;  // rows that are copied
                                                                        // together
    constexpr int kActive = kStep * kChunks;
    const int thread = int(threadIdx.x), row0 = thread / kChunks, chunk = thread - row0 * kChunks;
    if (kActive < S::kThreads && thread >= kActive) return;
    std::uint32_t to = shared_address(place) + unsigned(row0 * kStride * 2 + chunk * 16);
    const bool inside = skipped() + chunk * 8 < dim;
    const int column = inside ? skipped() * 2 + chunk * 16 : 0;
    if (rows.block_tokens % S::kKeys == 0) {  // the whole tile is in one block of the cache
      Bytes from = rows.row(token) + row0 * dim * 2 + column;
#pragma unroll
      for (int row = 0; row < S::kKeys; row += kStep) {
        if (S::kKeys % kStep != 0 && row0 + row >= S::kKeys) break;
        copy_async_or_zero(to + unsigned(row * kStride * 2), from + row * dim * 2,
                           inside && holds(token + row0 + row));
      }
    } else {
      for (int row = row0; row < S::kKeys; row += kStep, to += kStep * kStride * 2) {
        const bool some = inside && holds(token + row);
        copy_async_or_zero(to, rows.row(some ? token + row : token) + column, some);
      }
    }
  }

  __device__ __forceinline__ void start_raw(int token) const {
    const int bytes = kTileRows * rows.row_bytes;
    const std::uint32_t to = shared_address(raw);
    for (int part = 0; part < S::kKeys / kTileRows && token + part * kTileRows < end; ++part) {
      const int first = token + part * kTileRows, wanted = (end - first) * rows.row_bytes;
      const Bytes from = rows.row(first);
      for (int i = int(threadIdx.x) * 16; i < min(bytes, wanted); i += S::kThreads * 16)
        copy_async_or_zero(to + unsigned(part * bytes + i), from + i, true);
    }
  }

  // Called by all threads, after all copies have arrived.
  __device__ __forceinline__ void finish(int token) const {
    if constexpr (!kDirect) {
      if (rows.type == QuantFormat::kQ8_0)
        to_fp16<QuantFormat::kQ8_0>(token);
      else if (rows.type == QuantFormat::kQ4_0)
        to_fp16<QuantFormat::kQ4_0>(token);
      else
        to_fp16<QuantFormat::kF16>(token);
      __syncthreads();
    }
  }

  template <QuantFormat kType>
  __device__ __forceinline__ void to_fp16(int token) const {
    // Parts begin at a multiple of 256 elements, which keeps words aligned as rows are.
    const int before = skipped() == 0 ? 0 : skipped() / 32 * (rows.row_bytes / (dim / 32));
    rows_to_fp16<kType, S::kKeys, kStride, S::kThreads>(
        shared_offset(raw) + before, rows.row_bytes, min(kWidth, dim - skipped()),
        reinterpret_cast<__half*>(place), begin - token, end - token);
  }
};

// s = queries times keys. Both addresses are this lane's.
template <class S>
__device__ __forceinline__ void score(std::uint32_t queries, std::uint32_t keys,
                                      typename S::Scores& s) {
#pragma unroll
  for (int i = 0; i < S::kProducts; ++i)
#pragma unroll
    for (int n = 0; n < S::kKeys / 8; ++n)
#pragma unroll
      for (int k = 0; k < 4; ++k) s[i][n][k] = 0;
#pragma unroll
  for (int k = 0; k < S::kDim / 16; ++k) {
    std::uint32_t a[S::kProducts][4];
#pragma unroll
    for (int i = 0; i < S::kProducts; ++i)
      load_tiles(a[i], queries + unsigned(i * 16 * S::kRowBytes + k * 32));
#pragma unroll
    for (int n = 0; n < S::kKeys / 16; ++n) {
      std::uint32_t b[4];
      load_tiles(b, keys + unsigned(n * 16 * S::kRowBytes + k * 32));
#pragma unroll
      for (int i = 0; i < S::kProducts; ++i) {
        multiply_add(s[i][2 * n], a[i], b[0], b[1]);
        multiply_add(s[i][2 * n + 1], a[i], b[2], b[3]);
      }
    }
  }
}

// o += probabilities times values.
template <class S>
__device__ __forceinline__ void mix_values(std::uint32_t values, const typename S::Scores& s,
                                           PrefillAccumulator<S>& mix) {
#pragma unroll
  for (int n = 0; n < S::kKeys / 16; ++n) {
    std::uint32_t p[S::kProducts][4];
#pragma unroll
    for (int i = 0; i < S::kProducts; ++i)
#pragma unroll
      for (int k = 0; k < 4; ++k)
        p[i][k] = pack_half2(s[i][2 * n + k / 2][k % 2 * 2], s[i][2 * n + k / 2][k % 2 * 2 + 1]);
#pragma unroll
    for (int d = 0; d < S::kValues / 16; ++d) {
      std::uint32_t b[4];
      load_tiles_transposed(b, values + unsigned(n * 16 * S::kValueStride * 2 + d * 32));
#pragma unroll
      for (int i = 0; i < S::kProducts; ++i) {
        multiply_add(mix.o[i][2 * d], p[i], b[0], b[1]);
        multiply_add(mix.o[i][2 * d + 1], p[i], b[2], b[3]);
      }
    }
  }
}

// Pipelines the tiles: values are copied while scores are computed, and the next keys while values
// are summed.
template <class S, bool kDirect, bool kPieces>
__device__ __forceinline__ void attend_tiles(const Tile<S, kDirect, S::kDim>& keys,
                                             const Tile<S, kDirect, S::kValues>& values,
                                             const VisibleTokens<S, kPieces>& seen,
                                             const TileRange& tiles, std::uint32_t queries,
                                             const SoftCap& cap, int lane,
                                             PrefillAccumulator<S>& mix) {
  const std::uint32_t own_keys =
      shared_address(keys.place) +
      unsigned((lane / 16 * 8 + lane % 8) * S::kRowBytes + lane / 8 % 2 * 16);
  const std::uint32_t own_values =
      shared_address(values.place) + unsigned((lane % 16) * S::kValueStride * 2 + lane / 16 * 16);
  for (int tile = tiles.begin; tile < tiles.end; ++tile) {
    const int token = tile * S::kKeys;
    typename S::Scores s;
    wait_for_copies<0>();
    __syncthreads();  // and the previous values have been used
    values.start(token);
    commit_copies();
    keys.finish(token);
    score<S>(queries, own_keys, s);
    if (cap) bound_scores<S>(cap, s);
    wait_for_copies<0>();
    __syncthreads();
    if (tile + 1 < tiles.end) keys.start(token + S::kKeys);
    commit_copies();
    values.finish(token);
    seen.mask(token, lane, s);
    mix.weigh(s);
    mix_values<S>(own_values, s, mix);
  }
  wait_for_copies<0>();
}

// Blocks are ordered by their work, the longest first; blocks of one part of the rows are adjacent.
// blockIdx.y: the part of the values; blockIdx.z: the split of the context.
template <class S, bool kDirect, bool kPieces>
__global__ void __launch_bounds__(S::kThreads, S::kBlocks)
    attend(PrefillTask t, Cache cache, const int* position) {
  extern __shared__ __align__(16) std::byte shared[];
  allow_next_kernel();
  const int lane = int(threadIdx.x) % 32, warp = int(threadIdx.x) / 32;
  const int part = int(gridDim.x - 1 - blockIdx.x) / cache.kv_heads;
  const int head = int(blockIdx.x) % cache.kv_heads, first_row = part * S::kRows;
  std::byte* const tiles = shared + S::kQueryBytes;
  const VisibleTokens<S, kPieces> seen(t, *position, first_row, lane, warp);
  const TileRange own_tiles = tiles_of_split(seen.first_tile(), seen.end_tile());
  const int begin = seen.begin(), end = seen.last + 1;
  constexpr int kBothTiles = S::kTileBytes + S::kValueTileBytes;
  const int first = S::kValues == S::kDim ? 0 : int(blockIdx.y) * S::kValues;
  const Tile<S, kDirect, S::kDim> keys{
      keys_of(cache, t.layer, head), tiles, tiles + kBothTiles, t.dim, begin, end};
  const Tile<S, kDirect, S::kValues> values{values_of(cache, t.layer, head),
                                            tiles + S::kTileBytes,
                                            tiles + kBothTiles + S::kKeys * cache.k_row + 16,
                                            t.dim,
                                            begin,
                                            end,
                                            first};
  if constexpr (!kDirect)  // clears columns past the head's: a NaN there would spoil products with
                           // zeros
    for (int i = int(threadIdx.x); i < kBothTiles / 4; i += S::kThreads)
      reinterpret_cast<std::uint32_t*>(tiles)[i] = 0;
  start_queries<S>(t, head, first_row, shared_address(shared));
  if (own_tiles.begin < own_tiles.end) keys.start(own_tiles.begin * S::kKeys);
  commit_copies();
  PrefillAccumulator<S> mix;
  mix.clear();
  __half* own = reinterpret_cast<__half*>(shared) + warp * S::kProducts * 16 * S::kStride;
  const std::uint32_t own_queries =
      shared_address(own) + unsigned((lane % 16) * S::kRowBytes + lane / 16 * 16);
  attend_tiles(keys, values, seen, own_tiles, own_queries, t.cap, lane, mix);
  __syncwarp();
  const int own_row = first_row + warp * S::kProducts * 16;
  if (t.partials.o)
    write_partials(t, head, own_row, first, mix, lane);
  else
    write_rows(t, head, own_row, first, mix, own, lane);
}

// Bytes of shared memory of a block.
template <class S, bool kDirect>
int bytes_of(const Cache& cache) {
  const int raw = kDirect ? 0 : S::kKeys * (cache.k_row + cache.v_row) + 32;
  return S::kQueryBytes + S::kTileBytes + S::kValueTileBytes + raw;
}

template <class S, bool kDirect>
void launch_attend(const Stream& stream, const PrefillAttention& a, PrefillTask t,
                   const Cache& cache, const int* position) {
  const auto kernel = t.window < 0 ? attend<S, kDirect, true> : attend<S, kDirect, false>;
  const int bytes = bytes_of<S, kDirect>(cache);
  RIGCAST_CUDA_CALL(
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
  // The launch waits for the previous kernel: blocks that start early would be packed onto the
  // multiprocessors that it leaves first, and share them to their end, which takes 1.3 to 1.6 times
  // as long with 512 tokens or fewer.
  const int splits = splits_of<S>(a, cache);
  if (splits > 1) t.partials = partials_of(a, std::int64_t(a.tokens) * splits * t.heads, t.dim);
  const dim3 grid(unsigned(parts_of<S>(t) * cache.kv_heads), kValueParts<S::kDim>,
                  unsigned(splits));
  launch(stream, {grid, dim3(S::kThreads), std::size_t(bytes)}, Start::kAfter, kernel, t, cache,
         position);
  if (splits > 1) merge_rows(stream, t.partials, a.tokens, splits, t.heads, t.dim, t.out, t.sinks);
}

// Wide blocks use each read twice as often; narrow ones are twice as many; small ones fit into the
// 64 KiB of shared memory of Turing, those of heads wider than 256 with half the warps. `room`:
// bytes that a block may use.
template <int kDim>
void launch_width(const Stream& stream, const PrefillAttention& a, const PrefillTask& t,
                  const Cache& cache, const int* position, int room) {
  using Narrow = Sizes<kDim, 1>;
  using Wide = Sizes<kDim, kDim <= 128 ? 2 : 1>;
  using Small = Sizes<kDim, 1, Narrow::kKeys / 2, kDim <= 256 ? kWarps : kWarps / 2>;
  const bool direct = cache.k_type == QuantFormat::kF16 && cache.v_type == QuantFormat::kF16;
  const bool few = parts_of<Wide>(t) * cache.kv_heads <= device_facts().multiprocessors;
  if (direct) {
    const bool wide = !few && bytes_of<Wide, true>(cache) <= room;
    const auto run = wide                                    ? launch_attend<Wide, true>
                     : bytes_of<Narrow, true>(cache) <= room ? launch_attend<Narrow, true>
                                                             : launch_attend<Small, true>;
    return run(stream, a, t, cache, position);
  }
  const auto run = bytes_of<Wide, false>(cache) <= room ? launch_attend<Wide, false>
                                                        : launch_attend<Small, false>;
  run(stream, a, t, cache, position);
}

}  // namespace

void attend_causally(const Stream& stream, const PrefillAttention& attention, const Cache& cache,
                     int layer, const int* position, const HalfRows& out) {
  if (attention.tokens < 1) return;
  if (has_hopper_attention(attention, cache))
    return attend_on_hopper(stream, attention, cache, layer, position, out);
  const PrefillTask t = task_of(attention, cache, layer, out);
  const auto run = t.dim <= 64    ? launch_width<64>
                   : t.dim <= 96  ? launch_width<96>
                   : t.dim <= 128 ? launch_width<128>
                   : t.dim <= 256 ? launch_width<256>
                                  : launch_width<512>;
  const int largest = device_facts().block_shared_bytes;
  run(stream, attention, t, cache, position,
      attention.shared_bytes > 0 ? std::min(attention.shared_bytes, largest) : largest);
}

}  // namespace rigcast::engine::cuda
