#include "engine/kernels/cuda/attention/hopper_attention.cuh"

#include "engine/kernels/cuda/attention/prefill_rows.cuh"
#include "engine/kernels/cuda/hopper/tensor_memory.cuh"

namespace rigcast::engine::cuda {

// A block has 128 query rows. Four warps copy keys and values to shared memory; two groups of four
// compute 64 rows each, and multiply the next keys and the last values while they weigh scores.
struct HopperAttentionShape {
  static constexpr int kDim = 128, kValues = kDim, kKeys = 128, kProducts = 1;
  static constexpr int kWarps = 8, kCopyWarps = 4, kRows = 16 * kWarps;
  static constexpr int kThreads = 32 * (kWarps + kCopyWarps);
  static constexpr int kStride = kTileStride<kDim>;
  static constexpr int kBlocks = 1;
  using Scores = float[kProducts][kKeys / 8][4];
};

namespace {

using S = HopperAttentionShape;

// Tiles lie as [8 rows][8 elements of these], 128 bytes each: tensor cores take them as keys, whose
// elements they sum over, and as values, whose rows they sum over.
constexpr int kChunks = S::kDim / 8;       // of 16 bytes, of a row
constexpr int kEightRows = kChunks * 128;  // bytes
constexpr int kTileBytes = S::kKeys / 8 * kEightRows;
constexpr int kStages = 3;  // of keys, and of values
// The queries of four warps. Results go the same way out, with rows of kStride.
constexpr int kGroupBytes = 64 * S::kStride * 2;
constexpr int kSharedBytes = 2 * kGroupBytes + 2 * kStages * kTileBytes;

#if RIGCAST_HOPPER_CODE

// Barriers of a tile: it is there, and all warps have read it.
struct Barriers {
  std::uint64_t full[kStages], empty[kStages];
};

// The next stage of a ring of tiles, for the warps that fill it and for those that read it.
struct PipelineState {
  std::uint32_t stages, full, empty;
  int stage = 0;
  std::uint32_t parity = 0;

  __device__ PipelineState(std::uint32_t stages, const Barriers& barriers)
      : stages(stages),
        full(shared_address(barriers.full)),
        empty(shared_address(barriers.empty)) {}
  __device__ __forceinline__ std::uint32_t address() const { return stages + stage * kTileBytes; }
  // Called by a warp.
  __device__ __forceinline__ bool is_empty() const {
    return __all_sync(~0u, has_ended(empty + 8 * stage, parity ^ 1));
  }
  __device__ __forceinline__ void await_full() const { await(full + 8 * stage, parity); }
  __device__ __forceinline__ void await_empty() const { await(empty + 8 * stage, parity ^ 1); }
  __device__ __forceinline__ void next() {
    if (++stage == kStages) stage = 0, parity ^= 1;
  }
  // Called by a warp.
  __device__ __forceinline__ void release() const {
    __syncwarp();
    if (threadIdx.x % 32 == 0) arrive(empty + 8 * stage);
  }
};

// Divides a block's registers: warps that compute get those that copying warps do not need.
template <bool kComputes>
__device__ __forceinline__ void reallocate_registers() {
  if constexpr (kComputes)
    asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
  else
    asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
}

// Makes this thread's finished copies visible to wgmma, which reads through the async proxy.
__device__ __forceinline__ void fence_async_proxy() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

// Copies eight rows. A lane of the copying warps copies a chunk of row lane % 8.
__device__ __forceinline__ void copy_eight_rows(std::uint32_t to, Bytes row, bool copy) {
  const int lane = int(threadIdx.x) % 32,
            chunk = (int(threadIdx.x) / 32 - S::kWarps) * 4 + lane / 8;
  copy_async_or_zero(to + chunk * 128 + lane % 8 * 16, row + chunk * 16, copy);
}

// What the copying warps do: queries and the first keys, then values and the next keys in turn. A
// tile is signalled as full once the copies of the one behind it have begun.
class Producer {
 public:
  __device__ Producer(const PrefillTask& t, int head, int begin, int end)
      : t_(t), head_(head), begin_(begin), end_(end) {}

  __device__ void copy_queries(int first_row, std::uint32_t to) const {
    const int lane = int(threadIdx.x) % 32;
#pragma unroll 1
    for (int eight = 0; eight < S::kRows / 8; ++eight) {
      const int row = first_row + eight * 8 + lane % 8;
      const bool some = row < t_.rows;
      copy_eight_rows(to + eight / 8 * kGroupBytes + eight % 8 * kEightRows,
                      reinterpret_cast<Bytes>(query_row(t_, head_, some ? row : 0)), some);
    }
  }

  __device__ void copy_tile(const HeadRows& rows, int token, PipelineState& place) {
    if (!place.is_empty()) {  // what is on its way is awaited first
      finish();
      place.await_empty();
    }
    // Rows past the context are not read.
    const int own = int(threadIdx.x) % 32 % 8, last = end_ - 1;
    const bool together = rows.block_tokens % S::kKeys == 0;
    Bytes row = rows.row(min(token, last)) + own * rows.row_bytes;
#pragma unroll 4
    for (int eight = 0; eight < S::kKeys / 8; ++eight) {
      const int at = token + eight * 8 + own;
      if (!together) row = rows.row(min(token + eight * 8, last)) + own * rows.row_bytes;
      copy_eight_rows(place.address() + eight * kEightRows, row, at >= begin_ && at < end_);
      row += 8 * rows.row_bytes;
    }
    commit_copies();
    wait_for_copies<1>();
    signal_full();
    copied_ = place.full + 8 * place.stage;
    place.next();
  }

  __device__ void finish() {
    wait_for_copies<0>();
    signal_full();
  }

 private:
  __device__ void signal_full() {
    fence_async_proxy();
    __syncwarp();
    if (copied_ != 0 && threadIdx.x % 32 == 0) arrive(copied_);
    copied_ = 0;
  }

  const PrefillTask& t_;
  int head_, begin_, end_;
  std::uint32_t copied_ = 0;  // the barrier of the tile that was copied last
};

// The wgmma descriptor of a tile. `summed`, `others`: bytes between neighbouring groups of eight
// elements along the dimension that the product sums over, and along the other one.
__device__ __forceinline__ std::uint64_t tile_descriptor(std::uint32_t address, int summed,
                                                         int others) {
  return std::uint64_t(address >> 4 & 0x3FFF) | std::uint64_t(summed >> 4) << 16 |
         std::uint64_t(others >> 4) << 32;
}

using Sums = float[64];

__device__ __forceinline__ Sums& flat(float (&s)[1][16][4]) { return reinterpret_cast<Sums&>(s); }

#define RIGCAST_F4(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define RIGCAST_F16(i) RIGCAST_F4(i), RIGCAST_F4(i + 4), RIGCAST_F4(i + 8), RIGCAST_F4(i + 12)
#define RIGCAST_SUMS                                                                           \
  "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, "     \
  "%19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, " \
  "%37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, " \
  "%55, %56, %57, %58, %59, %60, %61, %62, %63}, "

// d = (adds ? d : 0) + queries keys, of 16 elements.
__device__ __forceinline__ void multiply_keys(Sums& d, std::uint64_t queries, std::uint64_t keys,
                                              bool adds) {
  asm volatile(
      "{\n"
      ".reg .pred adds;\n"
      "setp.ne.b32 adds, %66, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 " RIGCAST_SUMS
      "%64, %65, adds, 1, 1, 0, 0;\n"
      "}"
      : RIGCAST_F16(0), RIGCAST_F16(16), RIGCAST_F16(32), RIGCAST_F16(48)
      : "l"(queries), "l"(keys), "r"(int(adds)));
}

// d += probabilities values, of 16 tokens.
__device__ __forceinline__ void multiply_values(Sums& d, const std::uint32_t (&p)[4],
                                                std::uint64_t values) {
  asm volatile("wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 " RIGCAST_SUMS
               "{%64, %65, %66, %67}, %68, 1, 1, 1, 1;"
               : RIGCAST_F16(0), RIGCAST_F16(16), RIGCAST_F16(32), RIGCAST_F16(48)
               : "r"(p[0]), "r"(p[1]), "r"(p[2]), "r"(p[3]), "l"(values));
}

#undef RIGCAST_SUMS
#undef RIGCAST_F16
#undef RIGCAST_F4

// Begins the scores of 64 rows and the keys of a tile.
__device__ __forceinline__ void begin_scores(std::uint32_t queries, std::uint32_t keys,
                                             S::Scores& s) {
  hold(flat(s));
  begin_products();
#pragma unroll
  for (int k = 0; k < S::kDim / 16; ++k)
    multiply_keys(flat(s), tile_descriptor(queries + k * 256, 128, kEightRows),
                  tile_descriptor(keys + k * 256, 128, kEightRows), k > 0);
  commit_products();
}

using Probabilities = std::uint32_t[S::kKeys / 16][4];

__device__ __forceinline__ void pack_probabilities(const S::Scores& s, Probabilities& p) {
#pragma unroll
  for (int n = 0; n < S::kKeys / 16; ++n)
#pragma unroll
    for (int k = 0; k < 4; ++k)
      p[n][k] = pack_half2(s[0][2 * n + k / 2][k % 2 * 2], s[0][2 * n + k / 2][k % 2 * 2 + 1]);
}

__device__ __forceinline__ void begin_values(std::uint32_t values, const Probabilities& p,
                                             PrefillAccumulator<S>& mix) {
  hold(flat(mix.o));
  begin_products();
#pragma unroll
  for (int n = 0; n < S::kKeys / 16; ++n)
    multiply_values(flat(mix.o), p[n],
                    tile_descriptor(values + n * 2 * kEightRows, kEightRows, 128));
  commit_products();
}

template <bool kPieces>
__device__ __forceinline__ void attend_tiles(const PrefillTask& t,
                                             const VisibleTokens<S, kPieces>& seen,
                                             const TileRange& tiles, std::uint32_t queries,
                                             PipelineState keys, PipelineState values,
                                             PrefillAccumulator<S>& mix) {
  const int lane = int(threadIdx.x) % 32;
  S::Scores s;
  Probabilities p;
  for (int tile = tiles.begin; tile < tiles.end; ++tile) {
    keys.await_full();
    begin_scores(queries, keys.address(), s);
    if (tile > tiles.begin) {
      values.await_full();
      begin_values(values.address(), p, mix);
      wait_for_products<1>();
    } else {
      wait_for_products<0>();
    }
    hold(flat(s));
    keys.release();
    keys.next();
    if (t.cap) bound_scores<S>(t.cap, s);
    seen.mask(tile * S::kKeys, lane, s);
    PrefillAccumulator<S>::Scales scale;
    const bool moved = mix.raise(s, scale);
    if (moved) mix.rescale_l(scale);
    mix.exponentiate(s);
    if (tile > tiles.begin) {
      wait_for_products<0>();
      hold(flat(mix.o));
      values.release();
      values.next();
      if (moved) mix.rescale_o(scale);
    }
    pack_probabilities(s, p);
  }
  if (tiles.begin >= tiles.end) return;
  values.await_full();
  begin_values(values.address(), p, mix);
  wait_for_products<0>();
  hold(flat(mix.o));
}

#endif  // RIGCAST_HOPPER_CODE

// Blocks are ordered by their work, the longest first; blocks of one part of the rows are adjacent.
// blockIdx.z: the split of the context.
template <bool kPieces>
__global__ void __launch_bounds__(S::kThreads, 1)
    attend_hopper([[maybe_unused]] PrefillTask t, [[maybe_unused]] Cache cache,
                  [[maybe_unused]] const int* position) {
#if RIGCAST_HOPPER_CODE
  extern __shared__ __align__(128) std::byte shared[];
  __shared__ __align__(8) Barriers of_keys, of_values;
  allow_next_kernel();
  const int lane = int(threadIdx.x) % 32, warp = int(threadIdx.x) / 32;
  const int part = int(gridDim.x - 1 - blockIdx.x) / cache.kv_heads;
  const int head = int(blockIdx.x) % cache.kv_heads, first_row = part * S::kRows;
  const VisibleTokens<S, kPieces> seen(t, *position, first_row, lane, warp);
  const TileRange tiles = tiles_of_split(seen.first_tile(), seen.end_tile());
  const std::uint32_t queries = shared_address(shared), stages = queries + 2 * kGroupBytes;
  if (threadIdx.x == 0) {
    for (const Barriers* b : {&of_keys, &of_values})
      for (int i = 0; i < kStages; ++i) {
        init_barrier(shared_address(&b->full[i]), S::kCopyWarps);
        init_barrier(shared_address(&b->empty[i]), S::kWarps);
      }
    publish_barriers();
  }
  __syncthreads();
  PipelineState keys(stages, of_keys), values(stages + kStages * kTileBytes, of_values);
  if (warp >= S::kWarps) {
    reallocate_registers<false>();
    Producer copies(t, head, seen.begin(), seen.last + 1);
    const HeadRows key_rows = keys_of(cache, t.layer, head);
    const HeadRows value_rows = values_of(cache, t.layer, head);
    copies.copy_queries(first_row, queries);
    for (int tile = tiles.begin; tile < tiles.end; ++tile) {
      copies.copy_tile(key_rows, tile * S::kKeys, keys);
      copies.copy_tile(value_rows, tile * S::kKeys, values);
    }
    copies.finish();
    return;
  }
  reallocate_registers<true>();
  const int group = warp / 4;
  PrefillAccumulator<S> mix;
  mix.clear();
  attend_tiles(t, seen, tiles, queries + group * kGroupBytes, keys, values, mix);
  const int own_row = first_row + warp * 16;
  if (t.partials.o) return write_partials(t, head, own_row, 0, mix, lane);
  // All four warps have read the queries.
  if (group == 0)
    asm volatile("bar.sync 1, 128;" ::: "memory");
  else
    asm volatile("bar.sync 2, 128;" ::: "memory");
  write_rows(t, head, own_row, 0, mix, reinterpret_cast<__half*>(shared) + warp * 16 * S::kStride,
             lane);
#else
  __trap();  // has_hopper_attention() says no
#endif
}

int parts_of(int rows) { return (rows + S::kRows - 1) / S::kRows; }

}  // namespace

bool has_hopper_attention(const PrefillAttention& a, const Cache& cache) {
  const DeviceFacts& gpu = device_facts();
  const bool code = RIGCAST_HAS_HOPPER_CODE && gpu.capability == 90 && gpu.compiled_for >= 90;
  if (!code || a.shared_bytes > 0 || cache.head_dim != S::kDim ||
      cache.k_type != QuantFormat::kF16 || cache.v_type != QuantFormat::kF16)
    return false;
  const int rows = a.tokens * (a.heads / cache.kv_heads);
  return rows >= S::kRows && parts_of(rows) * cache.kv_heads <= gpu.multiprocessors;
}

void attend_on_hopper(const Stream& stream, const PrefillAttention& a, const Cache& cache,
                      int layer, const int* position, const HalfRows& out) {
  PrefillTask t = task_of(a, cache, layer, out);
  const auto kernel = a.window < 0 ? attend_hopper<true> : attend_hopper<false>;
  RIGCAST_CUDA_CALL(
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kSharedBytes));
  const int splits = splits_of<S>(a, cache);
  if (splits > 1) t.partials = partials_of(a, std::int64_t(a.tokens) * splits * t.heads, t.dim);
  const dim3 grid(unsigned(parts_of(t.rows) * cache.kv_heads), 1, unsigned(splits));
  launch(stream, {grid, dim3(S::kThreads), std::size_t(kSharedBytes)}, Start::kAfter, kernel, t,
         cache, position);
  if (splits > 1) merge_rows(stream, t.partials, a.tokens, splits, t.heads, t.dim, t.out, t.sinks);
}

}  // namespace rigcast::engine::cuda
