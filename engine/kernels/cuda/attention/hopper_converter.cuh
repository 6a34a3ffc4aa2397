#pragma once
// Device code: the warps that bring keys and values of a quantized cache to shared memory, as F16.

#include "engine/kernels/cuda/attention/hopper_tiles.cuh"

namespace rigcast::engine::cuda {

/// Rows of the cache as they are: a ring of parts of tiles, behind the tiles of F16.
template <class S>
struct QuantizedRing {
  static constexpr int kKeys = S::kDim <= 128 ? S::kKeys : 32;  // rows of a stage
  static constexpr int kOfTile = S::kKeys / kKeys;
  static constexpr int kStages = 3;
  static constexpr int kStageBytes = kKeys * (S::kDim / 32) * 34;  // rows of Q8_0, the longest

  // In a block's shared memory. A few bytes behind a row are read, too.
  static constexpr int kAt = (HopperTiles<S>::kBytes + 15) / 16 * 16;
  static constexpr int kBarriersAt = kAt + kStages * kStageBytes;
  static constexpr int kBytes = kBarriersAt + 2 * kStages * int(sizeof(std::uint64_t));
};

#if RIGCAST_HOPPER_CODE

/// What the copying warps do where rows are blocks of 8 or 4 bits: one of them has parts of tiles
/// copied as they are, those of keys and of values in turn, and all four convert what has arrived.
template <class S>
class TileConverter {
  using Tiles = HopperTiles<S>;
  using Ring = QuantizedRing<S>;

 public:
  /// Of tokens [begin, end); rows of others become zeros. `shared`: the address of the block's
  /// shared memory.
  __device__ TileConverter(const PrefillTask& t, const Cache& cache, int head, int begin, int end,
                           const TileRing<S>& keys, const TileRing<S>& values, std::uint32_t shared)
      : t_(t),
        head_(head),
        begin_(begin),
        end_(end),
        shared_(shared),
        keys_(keys_of(cache, t.layer, head)),
        values_(values_of(cache, t.layer, head)),
        key_tiles_(keys),
        value_tiles_(values) {}

  /// Called by one thread.
  static __device__ void init_barriers(std::uint32_t shared) {
    for (int i = 0; i < Ring::kStages; ++i) {
      init_barrier(full(shared, i), 1);
      init_barrier(empty(shared, i), S::kCopyWarps);
    }
  }

  __device__ void convert_tiles(const TileRange& tiles, int first_row) {
    const int parts = (tiles.end - tiles.begin) * 2 * Ring::kOfTile;
    for (int i = 0; i < min(kAhead, parts); ++i) request(tiles.begin, i);
    copy_queries<S>(t_, head_, first_row, CopyPlace<S>(t_.dim), shared_);
    commit_copies();
    wait_for_copies<0>();
    for (int i = 0; i < parts; ++i) {
      if (i + kAhead < parts) request(tiles.begin, i + kAhead);
      if (is_of_keys(i))
        convert(tiles.begin, i, key_tiles_);
      else
        convert(tiles.begin, i, value_tiles_);
    }
  }

 private:
  static constexpr int kAhead = Ring::kStages - 1;
  static constexpr int kGroups = Ring::kKeys / kTileRows;  // contiguous rows in a stage

  static __device__ __forceinline__ std::uint32_t full(std::uint32_t shared, int stage) {
    return shared + unsigned(Ring::kBarriersAt + 8 * stage);
  }
  static __device__ __forceinline__ std::uint32_t empty(std::uint32_t shared, int stage) {
    return full(shared, Ring::kStages + stage);
  }
  // Parts come in the order keys, values, keys of the next tile.
  static __device__ __forceinline__ bool is_of_keys(int i) { return i / Ring::kOfTile % 2 == 0; }
  static __device__ __forceinline__ int first_token(int tile, int i) {
    return (tile + i / (2 * Ring::kOfTile)) * S::kKeys + i % Ring::kOfTile * Ring::kKeys;
  }

  // Selected value by value: a reference would put both in local memory.
  __device__ __forceinline__ HeadRows rows_of(int i) const {
    HeadRows rows = keys_;
    if (is_of_keys(i)) return rows;
    rows.offset = values_.offset;
    rows.row_bytes = values_.row_bytes;
    rows.type = values_.type;
    return rows;
  }

  // Has part `i` copied: the rows of which some are seen, kTileRows by each of the first lanes.
  __device__ void request(int tile, int i) {
    if (int(threadIdx.x) / 32 % S::kCopyWarps != 0) return;
    const HeadRows rows = rows_of(i);
    const int lane = int(threadIdx.x) % 32, stage = i % Ring::kStages;
    const int token = first_token(tile, i) + lane * kTileRows;
    const bool some = lane < kGroups && token < end_ && token + kTileRows > begin_;
    const unsigned bytes = unsigned(kTileRows * rows.row_bytes);
    const unsigned all = bytes * unsigned(__popc(__ballot_sync(~0u, some)));
    if (i >= Ring::kStages) await(empty(shared_, stage), unsigned(i / Ring::kStages + 1) % 2);
    if (lane == 0) expect_copies(full(shared_, stage), all);
    __syncwarp();
    const std::uint32_t to = shared_ + unsigned(Ring::kAt + stage * Ring::kStageBytes);
    if (some) bulk_copy(to + unsigned(lane) * bytes, rows.row(token), bytes, full(shared_, stage));
  }

  __device__ __forceinline__ void convert(int tile, int i, TileRing<S>& tiles) {
    const int stage = i % Ring::kStages, part = i % Ring::kOfTile;
    const HeadRows rows = rows_of(i);
    if (part == 0) tiles.await_empty();
    await(full(shared_, stage), unsigned(i / Ring::kStages) % 2);
    const int from = Ring::kAt + stage * Ring::kStageBytes, token = first_token(tile, i);
    const std::uint32_t to = tiles.address() + unsigned(part * Ring::kKeys * Tiles::kRowBytes);
    if (rows.type == QuantFormat::kQ8_0)
      convert_rows<QuantFormat::kQ8_0>(from, rows.row_bytes, token, to);
    else
      convert_rows<QuantFormat::kQ4_0>(from, rows.row_bytes, token, to);
    __syncwarp();
    if (threadIdx.x % 32 == 0) arrive(empty(shared_, stage));
    if (part + 1 < Ring::kOfTile) return;
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");  // wgmma reads through that proxy
    tiles.fill();
  }

  // Eight lanes read the words of a block in a row. A warp's rows are 4 apart, which puts each in
  // another quarter of the banks, and their results, swizzled, in the two halves of a line.
  template <QuantFormat kType>
  __device__ __forceinline__ void convert_rows(int from, int row_bytes, int token,
                                               std::uint32_t to) const {
    const int lane = int(threadIdx.x) % 32, word = lane % 8, blocks = t_.dim / 32;
#pragma unroll 1
    for (int i = int(threadIdx.x) / 32 % S::kCopyWarps; i < Ring::kKeys / 4; i += S::kCopyWarps) {
      const int row = i / 4 * 16 + lane / 8 * 4 + i % 4;
      const bool seen = unsigned(token + row - begin_) < unsigned(end_ - begin_);
      const RowWords<kType> words(from + row * row_bytes, word);
      const std::uint32_t at =
          to + unsigned(row * Tiles::kRowBytes + (word / 2 ^ row % 8) * 16 + word % 2 * 8);
#pragma unroll
      for (int block = 0; block < S::kDim / 32; ++block) {
        const uint2 v = seen && block < blocks ? words.fp16(block) : make_uint2(0, 0);
        store_pair((block % 2 == 0 ? at : at ^ 64) + unsigned(block / 2 * Tiles::kPartBytes), v);
      }
    }
  }

  static __device__ __forceinline__ void store_pair(std::uint32_t at, const uint2& v) {
    asm volatile("st.shared.v2.u32 [%0], {%1, %2};" ::"r"(at), "r"(v.x), "r"(v.y) : "memory");
  }

  const PrefillTask& t_;
  int head_, begin_, end_;
  std::uint32_t shared_;
  HeadRows keys_, values_;
  TileRing<S> key_tiles_, value_tiles_;
};

#endif  // RIGCAST_HOPPER_CODE

}  // namespace rigcast::engine::cuda
