#pragma once
// A ring on the GPU through which blocks that the host keeps pass while a step of several sequences
// attends: a layer's are copied there while the layer before it computes, and new tokens' keys and
// values are copied back.
//
// Places in the ring. The part of a block in a layer lies at keys_at(layer, ...) of the address
// that the block has in lists (Cache::blocks), wherever the block is. In the ring, the block of
// slot i has the address ring + 2 i layers' parts. So layer l's part of it is at 2 i + l: the parts
// of neighbouring layers never share a place, while layer l + 2 takes the places of layer l. That
// is double buffering, and a step has one list of addresses for all layers.
//
// The protocol of a step; layers are indexed among those that the cache keeps:
//   1. plan()        what is copied; not called, or with nothing: the calls below do nothing
//   2. begin_step()  copies of the first two layers begin
//   3. await()       before a layer's new tokens are stored: its blocks are there
//   4. done()        after a layer's attention is queued: what was stored goes to the host, and
//                    then the layer after the next is copied to its places
//   5. end_step()    the step ends when all that was stored is in the host's memory

#include <cstddef>
#include <utility>
#include <vector>

#include "engine/cuda/copy_tracer.cuh"
#include "engine/cuda/cuda_buffer.cuh"
#include "engine/cuda/cuda_stream.cuh"
#include "engine/cuda/memory/vram.cuh"
#include "engine/cuda/sync_event.cuh"
#include "engine/kernels/cuda/kv/cache.cuh"
#include "engine/run/recorder.hpp"

namespace rigcast::engine::cuda {

class ColdRing {
 public:
  /// Blocks that are contiguous in the host's pinned memory, [block][layer], and whose slots follow
  /// each other.
  struct Fetch {
    int slot = 0, blocks = 0;
    const std::byte* from = nullptr;
  };
  /// Rows of a block that the step writes: of its tokens [first, first + count).
  struct Store {
    int slot = 0, first = 0, count = 0;
    std::byte* to = nullptr;  // the block in the host's memory
  };
  struct Plan {
    std::vector<Fetch> fetches{};
    std::vector<Store> stores{};
  };

  /// Makes room for `slots` blocks of `like`'s layout, of these layers of the model. Kernels that
  /// use the ring are queued on `computing`, which outlives this object. Throws ShortOfMemory,
  /// CudaFailure.
  ColdRing(Vram& vram, const Stream& computing, const Cache& like, std::vector<int> layers,
           int slots);

  int slots() const { return slots_; }
  /// The address of a slot's block in lists.
  std::byte* place(int slot) const {
    return memory_.as<std::byte>() + std::ptrdiff_t(2 * slot) * layout_.layer_bytes();
  }

  /// States what the next step copies. Nothing: the step has no cold blocks. No work of an earlier
  /// step may be queued that failed midway.
  void plan(Plan plan);
  /// True if the step copies anything. Its work is not to be captured: copies differ by step.
  bool is_used() const { return gathered_ > 0 || !plan_.fetches.empty() || !plan_.stores.empty(); }

  // All work is queued. `marks` may be null; it is notified of fetches until the step's end. Throw
  // CudaFailure.
  void begin_step(CopyTracer* marks);
  /// True: work that is queued next waits for copies, so that its kernel must be launched with
  /// Start::kAfter, or behind a barrier kernel.
  bool await(int layer);
  void done(int layer);
  void end_step();

  /// Bytes that were copied since the last call.
  MovedBytes take_bytes() { return std::exchange(bytes_, {}); }

 private:
  int layers() const { return int(layers_.size()); }
  std::ptrdiff_t part(int layer) const { return layer * std::ptrdiff_t(layout_.layer_bytes()); }
  void fetch(int layer);
  void store(int layer, const Store& store);

  const Stream& computing_;
  Cache layout_;
  std::vector<int> layers_;
  int slots_;
  VramPiece memory_;
  PinnedBuffer list_;  // of the step's blocks, BlockFetch
  bool reads_host_;
  int gathered_ = 0;  // blocks in the list
  Stream in_, out_;
  Plan plan_;  // without the runs whose blocks are in the list
  CopyTracer* marks_ = nullptr;
  // Of layers by their parity, but for the first and the last.
  SyncEvent begun_, fetched_[2], used_[2], stored_[2], ended_;
  MovedBytes bytes_;
};

}  // namespace rigcast::engine::cuda
