#pragma once
// KV blocks that have been evicted from the GPU's memory: where the host keeps them, how they get
// there, and how they come back into a ring buffer of two slots whenever attention needs them. A
// slot holds a group of neighbouring layers: several if they are small, because a kernel that waits
// for a copy starts late.
//
// The protocol of eviction: calls and callers, in this order.
//
//   Between steps, DeviceCache::reserve(), if a step needs more blocks than the GPU may hold:
//   1. finish_moving()  blocks whose copies began at the last reserve() become cold: their GPU
//                       memory is free
//   2. begin_moving()   for each of the oldest full blocks to evict: its copy to the host begins,
//                       and runs during the step that follows
//   3. make_room()      allocates the ring on the GPU: all cold blocks of two groups of layers
//   Before a token, the executor through KvState::prepare_token(); not captured:
//   4. prepare_token()  waits until the first group's blocks are on the GPU, unless the previous
//                       token has left them there
//   Within a step, queued or captured, queue_token() and queue_batch() through KvState:
//   5. begin_step()     copies of the second group begin; in a batch, those of the first one, too
//   6. await(), done()  before and after the attention of each layer, in the layers' order; after
//                       done() of a group's last layer, the group after the next may overwrite it
//   7. end_step()       for a single token: the step ends when the first group's blocks, which
//                       done() has requested, are back on the GPU for the next token
//
//   Between steps, DeviceCache::truncate(): copy_back() if the block to which new tokens are
//   written is cold, then truncate(). Prepared blocks are discarded.

#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "core/scenario/engine_sizes.hpp"
#include "engine/cuda/copy_tracer.cuh"
#include "engine/cuda/cuda_stream.cuh"
#include "engine/cuda/memory/vram.cuh"
#include "engine/kernels/cuda/kv/cache.cuh"
#include "engine/kv/kv_cache.hpp"

namespace rigcast::engine::cuda {

/// The cold blocks: the oldest ones, [0, count()). Layers are indexed among those that the cache
/// keeps.
class ColdBlocks {
 public:
  /// `hot`: the layout of blocks in the GPU's memory. `types`: the types in which the host stores
  /// them; they may differ from the GPU's only if the GPU's are FP16. `layers`: the model's layers
  /// that the cache keeps. `memory`: allocates pinned host memory.
  ColdBlocks(Vram& vram, const ModelSpec& spec, const Cache& hot, KvTypes types,
             const std::vector<int>& layers, Allocator memory);

  TokenCount count() const { return count_; }
  TokenCount moving() const { return moving_; }
  const KvCache& host() const { return host_; }
  /// True if the host's types differ from the GPU's.
  bool converts_type() const { return hot_.k_type != types_.k || hot_.v_type != types_.v; }
  /// Bytes of the GPU's memory that the ring of returning blocks takes now.
  double ring_memory() const {
    return double(slots_.bytes() + dequantized_.bytes() + lists_.bytes());
  }
  /// Bytes of one layer of a block, as the host stores it.
  std::int64_t layer_bytes() const { return host_.layer_bytes(); }

  /// Begins to copy block count() + moving() to the host. Its layers are contiguous at `block`, and
  /// all work that writes them must have ended. The memory must stay valid until finish_moving().
  void begin_moving(const std::byte* block);
  /// Waits for all copies that were begun; their blocks are cold then.
  void finish_moving();
  /// Allocates the ring on the GPU: two groups of layers of all cold blocks. Returns true if
  /// addresses of blocks have changed. Call between steps. Throws ShortOfMemory; then there is no
  /// ring, and the call can be repeated.
  bool make_room();
  /// True if make_room() must be called.
  bool needs_room() const { return count_ > room_; }
  /// Copies cold block `index` back to `block`, and waits for it. Needs the ring, unless the host
  /// has the GPU's types.
  void copy_back(TokenCount index, std::byte* block);
  /// Forgets the blocks from `count` on.
  void truncate(TokenCount count);

  /// The address of a cold block for attention: Cache::keys_at(layer, ...) of it is the layer's
  /// part. Changes with make_room().
  std::byte* place_of(int layer, TokenCount index) const;

  // For one step, to which blocks [first, count()) are copied back.

  /// Waits until the first group is on the GPU.
  void prepare_token(TokenCount first);
  /// Begins copies of the first groups, after all work that is queued on `compute`. `token`: the
  /// step was prepared by prepare_token(), and another token follows. `marks` may be null; it is
  /// notified of copies until the step's end.
  void begin_step(const Stream& compute, TokenCount first, bool token, CopyTracer* marks);
  /// Makes a layer's blocks available to what is queued on `compute` next. True: `compute` waits
  /// for them, so the kernel must be launched with Start::kAfter. False: they have been there since
  /// before the last kernel that was launched so, or since before the step.
  bool await(const Stream& compute, int layer);
  /// Call when all work that reads the layer's blocks is queued: another group may overwrite them.
  void done(const Stream& compute, int layer);
  /// Call after the step's last kernel is queued.
  void end_step(const Stream& compute);
  /// Bytes that the last step copied back.
  double step_bytes() const;
  /// Bytes that were evicted since the last call.
  double take_moved_bytes();
  /// Bytes that prepare_token() copied back since the last call.
  double take_prepared_bytes();

 private:
  int layers() const { return int(layers_.size()); }
  int groups() const { return (layers() + group_layers_ - 1) / group_layers_; }
  void allocate_ring(const KvRing& ring);
  void fetch(int group);
  void dequantize(const Stream& compute, int layer);
  int place_in_ring(int layer) const;
  std::byte* slot(int layer) const;

  Vram& vram_;
  Cache hot_;
  KvTypes types_;
  std::vector<int> layers_;
  KvCache host_;
  Stream in_, out_;
  TokenCount count_ = 0, moving_ = 0;
  double moved_bytes_ = 0, prepared_bytes_ = 0;

  // State of the step that is being queued.
  TokenCount first_ = 0;
  bool token_ = false;
  CopyTracer* marks_ = nullptr;
  /// The first group's blocks [first, second) are on the GPU.
  std::optional<std::pair<TokenCount, TokenCount>> prepared_;

  int group_layers_ = 1;
  VramPiece slots_;            // the ring: two groups, in the host's types
  VramPiece dequantized_;      // one layer in the GPU's types, if they differ
  VramPiece quantized_block_;  // one block being evicted, in the host's types
  // Address lists of slots_, dequantized_ and the block that is copied back; and a position.
  VramPiece lists_;
  TokenCount room_ = 0;  // blocks per layer for which the ring has room
  Event begun_, ready_[2], free_[2];
};

}  // namespace rigcast::engine::cuda
