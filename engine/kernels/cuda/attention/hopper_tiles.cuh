#pragma once
// Device code: tiles of queries, keys and values in shared memory, as wgmma reads them, and the
// warps that copy them there. S is the shape of a block, as of prefill_rows.cuh.

#include "engine/kernels/cuda/attention/prefill_rows.cuh"
#include "engine/kernels/cuda/hopper/tensor_memory.cuh"

namespace rigcast::engine::cuda {

/// Tiles lie as [64 elements of these][row], 128 bytes each, of which the eight pieces of 16 bytes
/// are swizzled by the row: tensor cores take them as keys, whose elements they sum over, and as
/// values, whose rows they sum over. Four warps of each multiprocessor copy 11.9 TB/s so, where
/// lines of memory become lines of shared memory, and 2.4 where a line is scattered there (H200).
template <class S>
struct HopperTiles {
  static_assert(S::kValues == S::kDim);  // tiles of keys and of values are alike
  static constexpr int kRowBytes = 128, kEightRows = 8 * kRowBytes;
  static constexpr int kParts = S::kDim / 64;
  static constexpr int kPartBytes = S::kKeys * kRowBytes, kTileBytes = kParts * kPartBytes;
  static constexpr int kStages = S::kStages;  // of keys, and of values
  // The queries of four warps. Results go the same way out, with rows of kStride.
  static constexpr int kQueryPartBytes = 64 * kRowBytes;
  static constexpr int kGroupBytes =
      std::max(kParts * kQueryPartBytes, (64 * S::kStride * 2 + 1023) / 1024 * 1024);

  // In a block's shared memory, which is aligned to 1,024 bytes, as swizzling needs.
  static constexpr int kKeysAt = 2 * kGroupBytes, kValuesAt = kKeysAt + kStages * kTileBytes;
  static constexpr int kBarriersAt = kValuesAt + kStages * kTileBytes;
  static constexpr int kBytes = kBarriersAt + 4 * kStages * int(sizeof(std::uint64_t));
};

#if RIGCAST_HOPPER_CODE

/// The wgmma descriptor of a tile. `part_bytes`: between its parts, where the product does not sum
/// over them.
__device__ __forceinline__ std::uint64_t swizzled_at(std::uint32_t address, int part_bytes = 16) {
  constexpr std::uint64_t kSwizzled = 1ull << 62, kEightRows = 1024;
  return std::uint64_t(address >> 4 & 0x3FFF) | std::uint64_t(part_bytes >> 4) << 16 |
         kEightRows >> 4 << 32 | kSwizzled;
}
/// Where elements 16 k begin in a tile whose elements a product sums over.
__device__ __forceinline__ constexpr std::uint32_t elements_at(int k, int part_bytes) {
  return k / 4 * part_bytes + k % 4 * 32;
}

/// A ring of tiles, and for each a barrier that it is there, and one that all warps have read it.
/// Warps that fill the ring and those that read it have a copy each.
template <class S>
class TileRing {
  using Tiles = HopperTiles<S>;

 public:
  __device__ TileRing(std::uint32_t tiles, std::uint32_t barriers)
      : tiles_(tiles), barriers_(barriers) {}

  // Called by one thread.
  __device__ void init() const {
    for (int i = 0; i < Tiles::kStages; ++i) {
      init_barrier(barriers_ + 8 * i, S::kCopyWarps);
      init_barrier(barriers_ + 8 * (Tiles::kStages + i), S::kWarps);
    }
  }
  /// Of the next tile.
  __device__ __forceinline__ std::uint32_t address() const {
    return tiles_ + stage_ * Tiles::kTileBytes;
  }
  // Called by a warp.
  __device__ __forceinline__ bool is_empty() const {
    return __all_sync(~0u, has_ended(empty(), parity_ ^ 1));
  }
  __device__ __forceinline__ void await_empty() const { await(empty(), parity_ ^ 1); }
  __device__ __forceinline__ void await_full() const { await(full(), parity_); }
  // Called by a warp: it has filled, or read, the tile; the one behind it is next.
  __device__ __forceinline__ void fill() { pass(full()); }
  __device__ __forceinline__ void release() { pass(empty()); }
  __device__ __forceinline__ void next() {
    if (++stage_ == Tiles::kStages) stage_ = 0, parity_ ^= 1;
  }

 private:
  __device__ __forceinline__ std::uint32_t full() const { return barriers_ + 8 * stage_; }
  __device__ __forceinline__ std::uint32_t empty() const { return full() + 8 * Tiles::kStages; }
  __device__ __forceinline__ void pass(std::uint32_t barrier) {
    __syncwarp();
    if (threadIdx.x % 32 == 0) arrive(barrier);
    next();
  }

  std::uint32_t tiles_, barriers_;
  int stage_ = 0;
  std::uint32_t parity_ = 0;
};

/// Where a lane of the copying warps copies to and from. A warp copies 128 bytes of each of four
/// rows at once: this lane has 16 bytes of one of them, and of that which is kStep rows below, and
/// so on.
template <class S>
struct CopyPlace {
  using Tiles = HopperTiles<S>;
  static constexpr int kStep = 4 * S::kCopyWarps / Tiles::kParts;

  /// `dim`: elements of a head.
  __device__ explicit CopyPlace(int dim) {
    const int warp = int(threadIdx.x) / 32 % S::kCopyWarps, piece = int(threadIdx.x) % 8;
    row = warp / Tiles::kParts * 4 + int(threadIdx.x) % 32 / 8;
    part = warp % Tiles::kParts;
    inside = part * 64 + piece * 8 < dim;
    from = inside ? part * Tiles::kRowBytes + piece * 16 : 0;
    to = row * Tiles::kRowBytes + (piece ^ row % 8) * 16;
  }
  /// Where this lane's copy `i` goes in a part of a tile.
  __device__ __forceinline__ std::uint32_t at(int i) const {
    return (kStep % 8 != 0 && i % 2 != 0 ? to ^ 64 : to) + i * kStep * Tiles::kRowBytes;
  }

  int row, part, from;  // of this lane's first copy
  std::uint32_t to;
  bool inside;  // the head has elements there
};

/// Starts the copies of a block's queries, whose rows begin at `first_row`.
template <class S>
__device__ __forceinline__ void copy_queries(const PrefillTask& t, int head, int first_row,
                                             const CopyPlace<S>& own, std::uint32_t to) {
  using Tiles = HopperTiles<S>;
  to += own.part * Tiles::kQueryPartBytes;
#pragma unroll 2
  for (int i = 0; i < S::kRows / own.kStep; ++i) {
    constexpr int kOfGroup = 64 / CopyPlace<S>::kStep;
    const int row = first_row + own.row + i * own.kStep;
    const bool some = own.inside && row < t.rows;
    const auto* const from = query_row(t, head, some ? row : 0);
    copy_async_or_zero(to + i / kOfGroup * Tiles::kGroupBytes + own.at(i % kOfGroup),
                       reinterpret_cast<Bytes>(from) + own.from, some);
  }
}

/// What the copying warps do: queries and the first keys, then values and the next keys in turn. A
/// tile is signalled as full once the copies of kAhead more have begun.
template <class S>
class TileProducer {
  using Tiles = HopperTiles<S>;

 public:
  /// Of tokens [begin, end); rows of others become zeros.
  __device__ TileProducer(const PrefillTask& t, const Cache& cache, int head, int begin, int end,
                          const TileRing<S>& keys, const TileRing<S>& values)
      : t_(t),
        head_(head),
        begin_(begin),
        end_(end),
        keys_(keys_of(cache, t.layer, head)),
        values_(values_of(cache, t.layer, head)),
        own_(t.dim),
        copied_keys_(keys),
        copied_values_(values) {}

  __device__ void copy_tiles(const TileRange& tiles, int first_row, std::uint32_t queries) {
    copy_queries<S>(t_, head_, first_row, own_, queries);
    TileRing<S> keys = copied_keys_, values = copied_values_;
    find_rows(tiles.begin);
    for (int tile = tiles.begin; tile < tiles.end; ++tile) {
      const Bytes block = block_;
      const int row = row_;
      if (tile + 1 < tiles.end) find_rows(tile + 1);
      copy_tile(keys_, tile, block, row, keys);
      copy_tile(values_, tile, block, row, values);
    }
    finish();
  }

 private:
  // As many as leave a tile of each ring to those that read it.
  static constexpr int kAhead = 2 * Tiles::kStages - 3;

  // Finds eight rows of a tile for this lane: those of number lane % (kKeys / 8). Rows past the
  // context are not read.
  __device__ void find_rows(int tile) {
    const int eight = int(threadIdx.x) % (S::kKeys / 8);
    const int token = min(tile * S::kKeys + eight * 8, end_ - 1);
    const int block = token / keys_.block_tokens;
    block_ = keys_.blocks[block];
    row_ = token - block * keys_.block_tokens;
  }

  // A copying warp has a scheduler to itself, which issues no faster than one instruction's results
  // follow the other's: a few for each copy.
  __device__ void copy_tile(const HeadRows& rows, int tile, Bytes block, int row,
                            TileRing<S>& ring) {
    if (!ring.is_empty()) {  // what is on its way is awaited first
      finish();
      ring.await_empty();
    }
    const auto own_eight = reinterpret_cast<unsigned long long>(rows.row(block, row));
    const std::uint32_t to = ring.address() + own_.part * Tiles::kPartBytes;
    const int at = tile * S::kKeys + own_.row - begin_;
    const auto count = unsigned(own_.inside ? end_ - begin_ : 0);
    const int from = own_.from + own_.row % 8 * rows.row_bytes;
    constexpr int kStep = CopyPlace<S>::kStep;
#pragma unroll 4
    for (int i = 0; i < S::kKeys / kStep; ++i) {
      const auto eight =
          reinterpret_cast<Bytes>(__shfl_sync(~0u, own_eight, (own_.row + i * kStep) / 8));
      const int odd = kStep % 8 != 0 && i % 2 != 0 ? 4 * rows.row_bytes : 0;
      copy_async_or_zero(to + own_.at(i), eight + (from + odd), unsigned(at + i * kStep) < count);
    }
    commit_copies();
    ring.next();
    if (in_flight_ < kAhead) {
      ++in_flight_;
    } else {
      wait_for_copies<kAhead>();
      signal_full();
    }
  }

  __device__ void finish() {
    wait_for_copies<0>();
    for (; in_flight_ > 0; --in_flight_) signal_full();
  }

  // Signals the tile that was copied first; those of keys and of values alternate. wgmma reads
  // through the async proxy.
  __device__ void signal_full() {
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    if (values_next_)
      copied_values_.fill();
    else
      copied_keys_.fill();
    values_next_ = !values_next_;
  }

  const PrefillTask& t_;
  int head_, begin_, end_;
  HeadRows keys_, values_;
  CopyPlace<S> own_;
  Bytes block_ = nullptr;  // of the next tile
  int row_ = 0;
  TileRing<S> copied_keys_, copied_values_;  // the next that are signalled
  bool values_next_ = false;
  int in_flight_ = 0;
};

#endif  // RIGCAST_HOPPER_CODE

}  // namespace rigcast::engine::cuda
