#pragma once
// Keys and values that the host keeps, on the GPU layer by layer while a batch goes through.

#include <array>
#include <utility>

#include "engine/cuda/cuda_stream.cuh"
#include "engine/cuda/mark.cuh"
#include "engine/cuda/memory/vram.cuh"
#include "engine/kernels/cuda/kv/cache.cuh"
#include "engine/kv/kv_cache.hpp"
#include "engine/run/recorder.hpp"

namespace rigcast::engine::cuda {

/// Two layers at a time: one is fetched while the other is used or stored. A layer's blocks lie as
/// in the host's cache, so whole ones are copied. Everything is queued. Throws CudaFailure.
class StagedCache {
 public:
  /// For the host's cache, whose blocks are pinned, and whose layers kernels see as `like` has it.
  /// Kernels are on `computing`, fetches on `copying`; both outlive it, and so does `vram`.
  StagedCache(Vram& vram, const Stream& computing, const Stream& copying, KvCache& host,
              const Cache& like);

  /// Makes room for positions below `tokens`. Waits for all that is queued where it has to. Throws
  /// ShortOfMemory.
  void reserve(TokenCount tokens);

  // A batch after `cached` tokens; of every layer the rest in this order. A layer may be fetched
  // when the one before the last has been stored.
  void begin();
  void fetch(int layer, TokenCount cached);
  /// What is queued on the computing stream from here on finds what was fetched first: as layer 0.
  void take();
  /// The computing stream has queued all that writes the new tokens' keys and values.
  void store(int layer, TokenCount cached, TokenCount tokens);
  /// Of the layer that was taken.
  const Cache& view() const { return sides_[(taken_ - 1) % 2].view; }

  /// The computing stream goes on when all that was stored is in the host's cache.
  void join() const { stored_.hold_up(computing_); }
  MovedBytes take_bytes() { return std::exchange(bytes_, {}); }

 private:
  struct Side {
    Cache view;
    VramPiece blocks;  // one after the other
    VramPiece list;    // of them, for kernels
    Mark fetched, written, stored;
  };
  void make_room(Side& side, std::size_t blocks);
  std::size_t layer_bytes() const { return std::size_t(host_.layer_bytes()); }

  Vram& vram_;
  const Stream &computing_, &copying_;
  KvCache& host_;
  Stream storing_;
  std::array<Side, 2> sides_;
  Mark stored_;                          // the last that was queued
  std::size_t room_ = 0;                 // blocks of each side
  std::size_t fetched_ = 0, taken_ = 0;  // layers of this batch so far
  MovedBytes bytes_;
};

}  // namespace rigcast::engine::cuda
