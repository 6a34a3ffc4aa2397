#pragma once
// Keys and values that the host keeps, staged on the GPU layer by layer during a batch.

#include <array>
#include <utility>
#include <vector>

#include "engine/backends/cuda/kv/device_cache.cuh"
#include "engine/cuda/cuda_stream.cuh"
#include "engine/cuda/memory/vram.cuh"
#include "engine/cuda/sync_event.cuh"
#include "engine/kernels/cuda/kv/cache.cuh"
#include "engine/kv/kv_cache.hpp"
#include "engine/run/recorder.hpp"

namespace rigcast::engine::cuda {

/// Double buffering of layers: one is fetched while the other is used or stored. A layer's blocks
/// have the layout of the host's cache, so whole blocks are copied. All work is queued. Throws
/// CudaFailure.
class StagedCache {
 public:
  /// Stages these layers of the host's cache, whose blocks are pinned; kernels see them with the
  /// layouts of `like`, which outlives this object. Kernels are queued on `computing`, fetches on
  /// `copying`; both streams and `vram` outlive this object.
  StagedCache(Vram& vram, const Stream& computing, const Stream& copying, KvCache& host,
              const DeviceCache& like, const std::vector<int>& layers);

  /// Makes room for positions below `tokens`, and waits for queued work if it must. Throws
  /// ShortOfMemory.
  void reserve(TokenCount tokens);
  /// Bytes of the GPU's memory that reserve(tokens) would take beyond those that it holds.
  double bytes_to_reserve(TokenCount tokens) const;

  // One batch after `cached` tokens: begin() once, then for every layer the other calls in this
  // order. A layer may be fetched when the layer before the previous one has been stored.
  void begin();
  void fetch(int layer, TokenCount cached);
  /// Makes the oldest fetched layer available, as layer 0, to what is queued on the computing
  /// stream next.
  void acquire();
  /// Call when all work that writes the new tokens' keys and values is queued on the computing
  /// stream: copies them to the host's cache.
  void store(int layer, TokenCount cached, TokenCount tokens);
  /// The view of the layer that was acquired.
  Cache view(int layer) const;

  /// Makes the computing stream wait until everything stored is in the host's cache.
  void join() const { stored_.make_wait(computing_); }
  MovedBytes take_bytes() { return std::exchange(bytes_, {}); }

 private:
  struct Side {
    VramPiece blocks;  // contiguous blocks
    VramPiece list;    // their addresses, for kernels
    SyncEvent fetched, written, stored;
  };
  std::size_t blocks_for(TokenCount tokens) const;
  void make_room(Side& side, std::size_t blocks);
  std::size_t layer_bytes(int layer) const { return std::size_t(host_.layer_bytes(layer)); }

  Vram& vram_;
  const Stream &computing_, &copying_;
  KvCache& host_;
  const DeviceCache& like_;
  std::size_t block_bytes_ = 0;  // of the layer with the largest blocks
  Stream storing_;
  std::array<Side, 2> sides_;
  SyncEvent stored_;                     // the last store that was queued
  std::size_t room_ = 0;                 // blocks in each buffer
  std::size_t fetched_ = 0, taken_ = 0;  // number of layers of this batch so far
  MovedBytes bytes_;
};

}  // namespace rigcast::engine::cuda
