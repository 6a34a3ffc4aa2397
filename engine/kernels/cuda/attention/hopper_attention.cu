#include "engine/kernels/cuda/attention/hopper_attention.cuh"

#include <algorithm>
#include <cstdlib>

#include "engine/kernels/cuda/attention/hopper_converter.cuh"
#include "engine/kernels/cuda/attention/hopper_tiles.cuh"

namespace rigcast::engine::cuda {
namespace {

// A block has 128 query rows. Four warps bring keys and values to shared memory, as F16; two groups
// of four compute 64 rows each, and multiply the next keys and the last values while they weigh
// scores.
template <int kWidth, bool kQuantizedCache>
struct HopperShape {
  static constexpr bool kQuantized = kQuantizedCache;
  static constexpr int kDim = kWidth, kValues = kDim, kKeys = kDim <= 128 ? 128 : 64;
  static constexpr int kProducts = 1, kWarps = 8, kCopyWarps = 4, kRows = 16 * kWarps;
  static constexpr int kThreads = 32 * (kWarps + kCopyWarps);
  static constexpr int kStride = kTileStride<kDim>;
  static constexpr int kBlocks = 1, kStages = kDim <= 128 && !kQuantized ? 3 : 2;
  using Scores = float[kProducts][kKeys / 8][4];
};

#if RIGCAST_HOPPER_CODE

// Divides a block's registers: warps that compute get those that others do not need.
template <class S>
__device__ __forceinline__ void take_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(S::kQuantized ? 224 : 232));
}
template <class S>
__device__ __forceinline__ void leave_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(S::kQuantized ? 56 : 40));
}

// The two groups of warps take turns on the tensor cores: one begins its products while the other
// weighs scores. A turn is a barrier of both.
__device__ __forceinline__ void await_turn(int group) {
  asm volatile("bar.sync %0, 256;" ::"r"(1 + group) : "memory");
}
__device__ __forceinline__ void pass_turn(int group) {
  asm volatile("bar.arrive %0, 256;" ::"r"(2 - group) : "memory");
}
// Waits for the four warps of a group.
__device__ __forceinline__ void await_group(int group) {
  asm volatile("bar.sync %0, 128;" ::"r"(3 + group) : "memory");
}

template <int kCount>
__device__ __forceinline__ float (&flat(float (&s)[1][kCount][4]))[4 * kCount] {
  return reinterpret_cast<float(&)[4 * kCount]>(s);
}

// Begins the scores of 64 rows and the keys of a tile.
template <class S>
__device__ __forceinline__ void begin_scores(std::uint32_t queries, std::uint32_t keys,
                                             typename S::Scores& s) {
  using Tiles = HopperTiles<S>;
  hold(flat(s));
  begin_products();
#pragma unroll
  for (int k = 0; k < S::kDim / 16; ++k)
    multiply_shared<S::kKeys>(flat(s),
                              swizzled_at(queries + elements_at(k, Tiles::kQueryPartBytes)),
                              swizzled_at(keys + elements_at(k, Tiles::kPartBytes)), k > 0);
  commit_products();
}

template <class S>
using Probabilities = std::uint32_t[S::kKeys / 16][4];

template <class S>
__device__ __forceinline__ void pack_probabilities(const typename S::Scores& s,
                                                   Probabilities<S>& p) {
#pragma unroll
  for (int n = 0; n < S::kKeys / 16; ++n)
#pragma unroll
    for (int k = 0; k < 4; ++k)
      p[n][k] = pack_half2(s[0][2 * n + k / 2][k % 2 * 2], s[0][2 * n + k / 2][k % 2 * 2 + 1]);
}

template <class S>
__device__ __forceinline__ void begin_values(std::uint32_t values, const Probabilities<S>& p,
                                             PrefillAccumulator<S>& mix) {
  using Tiles = HopperTiles<S>;
  hold(flat(mix.o));
  begin_products();
#pragma unroll
  for (int n = 0; n < S::kKeys / 16; ++n)
    multiply_async<S::kValues, true>(
        flat(mix.o), p[n], swizzled_at(values + n * 2 * Tiles::kEightRows, Tiles::kPartBytes));
  commit_products();
}

// The first tile's scores come before the loop: registers of products in flight are then the same
// in each pass, without which ptxas does not leave them in flight.
template <class S, bool kPieces>
__device__ __forceinline__ void attend_tiles(const PrefillTask& t,
                                             const VisibleTokens<S, kPieces>& seen,
                                             const TileRange& tiles, std::uint32_t queries,
                                             TileRing<S> keys, TileRing<S> values,
                                             PrefillAccumulator<S>& mix) {
  if (tiles.begin >= tiles.end) return;
  const int lane = int(threadIdx.x) % 32, group = int(threadIdx.x) / 128;
  typename S::Scores s;
  Probabilities<S> p;
  typename PrefillAccumulator<S>::Scales scale;
  const auto mask = [&](int tile) {
    if (t.cap) bound_scores<S>(t.cap, s);
    seen.mask(tile * S::kKeys, lane, s);
  };
  if (group == 1) pass_turn(group);
  keys.await_full();
  await_turn(group);
  begin_scores<S>(queries, keys.address(), s);
  pass_turn(group);
  wait_for_products<0>();
  hold(flat(s));
  keys.release();
  mask(tiles.begin);
  mix.raise(s, scale);  // nothing has been summed
  mix.exponentiate(s);
  pack_probabilities<S>(s, p);
#pragma unroll 1
  for (int tile = tiles.begin + 1; tile < tiles.end; ++tile) {
    keys.await_full();
    values.await_full();
    await_turn(group);
    begin_scores<S>(queries, keys.address(), s);
    begin_values<S>(values.address(), p, mix);
    pass_turn(group);
    wait_for_products<1>();
    hold(flat(s));
    keys.release();
    mask(tile);
    const bool moved = mix.raise(s, scale);
    if (moved) mix.rescale_l(scale);
    mix.exponentiate(s);
    wait_for_products<0>();
    hold(flat(mix.o));
    values.release();
    if (moved) mix.rescale_o(scale);
    pack_probabilities<S>(s, p);
  }
  values.await_full();
  begin_values<S>(values.address(), p, mix);
  if (group == 0) await_turn(group);  // group 1 has passed one more
  wait_for_products<0>();
  hold(flat(mix.o));
}

#endif  // RIGCAST_HOPPER_CODE

// Blocks are ordered by their work, the longest first; blocks of one part of the rows are adjacent.
// blockIdx.z: the split of the context.
template <class S, bool kPieces>
__global__ void __launch_bounds__(S::kThreads, 1)
    attend_hopper([[maybe_unused]] PrefillTask t, [[maybe_unused]] Cache cache,
                  [[maybe_unused]] const int* position) {
#if RIGCAST_HOPPER_CODE
  using Tiles = HopperTiles<S>;
  extern __shared__ __align__(1024) std::byte shared[];
  allow_next_kernel();
  const int lane = int(threadIdx.x) % 32, warp = int(threadIdx.x) / 32;
  const int part = int(gridDim.x - 1 - blockIdx.x) / cache.kv_heads;
  const int head = int(blockIdx.x) % cache.kv_heads, first_row = part * S::kRows;
  const VisibleTokens<S, kPieces> seen(t, *position, first_row, lane, warp);
  const TileRange tiles = tiles_of_split(seen.first_tile(), seen.end_tile());
  const std::uint32_t own = shared_address(shared);
  const TileRing<S> keys(own + Tiles::kKeysAt, own + Tiles::kBarriersAt);
  const TileRing<S> values(own + Tiles::kValuesAt, own + Tiles::kBarriersAt + 16 * Tiles::kStages);
  if (threadIdx.x == 0) {
    keys.init();
    values.init();
    if constexpr (S::kQuantized) TileConverter<S>::init_barriers(own);
    publish_barriers();
  }
  __syncthreads();
  if (warp >= S::kWarps) {
    leave_registers<S>();
    if (tiles.begin >= tiles.end) return;
    const int begin = seen.begin(), end = seen.last + 1;
    if constexpr (S::kQuantized)
      TileConverter<S>(t, cache, head, begin, end, keys, values, own)
          .convert_tiles(tiles, first_row);
    else
      TileProducer<S>(t, cache, head, begin, end, keys, values).copy_tiles(tiles, first_row, own);
    return;
  }
  take_registers<S>();
  const int group = warp / 4;
  PrefillAccumulator<S> mix;
  mix.clear();
  attend_tiles(t, seen, tiles, own + group * Tiles::kGroupBytes, keys, values, mix);
  const int own_row = first_row + warp * 16;
  if (t.partials.o) return write_partials(t, head, own_row, 0, mix, lane);
  await_group(group);  // all four warps have read the queries
  write_rows(
      t, head, own_row, 0, mix,
      reinterpret_cast<__half*>(shared + group * Tiles::kGroupBytes) + warp % 4 * 16 * S::kStride,
      lane);
#else
  __trap();  // has_hopper_attention() says no
#endif
}

template <class S>
void launch_shape(const Stream& stream, const PrefillAttention& a, const Cache& cache, int layer,
                  const int* position, const HalfRows& out) {
  constexpr int kBytes = S::kQuantized ? QuantizedRing<S>::kBytes : HopperTiles<S>::kBytes;
  PrefillTask t = task_of(a, cache, layer, out);
  const auto kernel = a.window < 0 ? attend_hopper<S, true> : attend_hopper<S, false>;
  RIGCAST_CUDA_CALL(
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes));
  const int splits = splits_of<S>(a, cache), parts = (t.rows + S::kRows - 1) / S::kRows;
  if (splits > 1) t.partials = partials_of(a, std::int64_t(a.tokens) * splits * t.heads, t.dim);
  const dim3 grid(unsigned(parts * cache.kv_heads), 1, unsigned(splits));
  launch(stream, {grid, dim3(S::kThreads), std::size_t(kBytes)}, Start::kAfter, kernel, t, cache,
         position);
  if (splits > 1) merge_rows(stream, t.partials, a.tokens, splits, t.heads, t.dim, t.out, t.sinks);
}

template <bool kQuantized>
void launch_width(const Stream& stream, const PrefillAttention& a, const Cache& cache, int layer,
                  const int* position, const HalfRows& out) {
  const auto run = cache.head_dim <= 64    ? launch_shape<HopperShape<64, kQuantized>>
                   : cache.head_dim <= 128 ? launch_shape<HopperShape<128, kQuantized>>
                                           : launch_shape<HopperShape<256, kQuantized>>;
  run(stream, a, cache, layer, position, out);
}

bool is_fp16(QuantFormat type) { return type == QuantFormat::kF16; }

}  // namespace

bool has_hopper_attention(const PrefillAttention& a, const Cache& cache) {
  const DeviceFacts& gpu = device_facts();
  using Block = HopperShape<128, false>;
  constexpr int kMinKeys = 2 * Block::kKeys;
  const int seen = a.window == 0 ? a.context : std::min(a.context, std::abs(a.window));
  const bool code = RIGCAST_HAS_HOPPER_CODE && gpu.capability == 90 && gpu.compiled_for >= 90;
  return code && a.shared_bytes == 0 && cache.head_dim <= 256 &&
         is_fp16(cache.k_type) == is_fp16(cache.v_type) &&
         a.tokens * (a.heads / cache.kv_heads) >= Block::kRows &&
         (a.context == 0 || seen >= kMinKeys);
}

void attend_on_hopper(const Stream& stream, const PrefillAttention& a, const Cache& cache,
                      int layer, const int* position, const HalfRows& out) {
  const auto run = is_fp16(cache.k_type) ? launch_width<false> : launch_width<true>;
  run(stream, a, cache, layer, position, out);
}

}  // namespace rigcast::engine::cuda
