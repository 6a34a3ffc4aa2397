#pragma once
// Blocks of a KV cache that have left the GPU's memory: where the host keeps them, their way out,
// and their way back into a ring of two slots whenever attention needs them. A slot is for a group
// of neighbouring layers: several where they are small, since a kernel that waits for a copy begins
// late.
//
// The protocol of eviction: who calls what, in this order.
//
//   Between steps, DeviceCache::reserve(), where a step needs more blocks than there are:
//   1. finish_moving()  blocks whose copies began at the last reserve() are cold: their places on
//                       the GPU are free
//   2. begin_moving()   for each of the oldest full blocks that are too many: its copy to the host
//                       begins, beside the step that follows
//   3. make_room()      the ring on the GPU has room for all cold blocks of two groups of layers
//   Before a token, the executor by KvState::prepare_token(); not recorded:
//   4. prepare_token()  waits until the first group's blocks are on the GPU, unless the token
//                       before has left them there
//   Within a step, queued or recorded, by queue_token() and queue_batch() through KvState:
//   5. begin_step()     copies for the second group begin, of a batch for the first one, too
//   6. await(), done()  before and behind the attention of each layer, in their order; done() of a
//                       group's last layer lets the group after the next take its place
//   7. end_step()       of a token alone: it ends when the first group's blocks, which done() has
//                       asked for, are back on the GPU for the next token
//
//   DeviceCache::truncate(), between steps: bring_back() where the block that goes on being written
//   is cold, then truncate(). What was prepared is forgotten.

#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "core/scenario/engine_memory.hpp"
#include "engine/cuda/copy_marks.cuh"
#include "engine/cuda/cuda_stream.cuh"
#include "engine/cuda/memory/vram.cuh"
#include "engine/kernels/cuda/kv/cache.cuh"
#include "engine/kv/kv_cache.hpp"

namespace rigcast::engine::cuda {

/// The oldest blocks, [0, count()). Layers are named by their index among those that are kept.
class ColdBlocks {
 public:
  /// `hot`: how blocks lie in the GPU's memory. `types`: what they become on the host; other ones
  /// than the GPU's only where those are halves. `layers`: of the model, that are kept. `memory`:
  /// of the host, that GPUs copy from and to.
  ColdBlocks(Vram& vram, const ModelSpec& spec, const Cache& hot, KvTypes types,
             const std::vector<int>& layers, MakeMemory memory);

  TokenCount count() const { return count_; }
  TokenCount moving() const { return moving_; }
  const KvCache& host() const { return host_; }

  /// Begins to copy block count() + moving() out, whose layers lie one after the other at `block`;
  /// all that writes it has ended. The place must stay until finish_moving().
  void begin_moving(const std::byte* block);
  /// Waits for all that was begun: those blocks are cold then.
  void finish_moving();
  /// Makes room on the GPU for two groups of all cold blocks; true: places of blocks have changed.
  /// Between steps. Throws ShortOfMemory; then there is none, and it can be tried again.
  bool make_room();
  /// Whether make_room() has something to do.
  bool lacks_room() const { return count_ > room_; }
  /// Copies cold block `index` back to `block` and waits for it. Needs its room, unless the host
  /// has the GPU's types.
  void bring_back(TokenCount index, std::byte* block);
  /// Forgets the blocks from `count` on.
  void truncate(TokenCount count);

  /// Where attention finds a layer's cold block: an address from which Cache::keys_at(layer, ...)
  /// leads to it. Changes with make_room().
  std::byte* place_of(int layer, TokenCount index) const;

  // Of one step; blocks [first, count()) come back for it.

  /// The first group is on the GPU then.
  void prepare_token(TokenCount first);
  /// Begins with the first groups, after all that is queued on `compute`. `token`: the step was
  /// prepared, and the next is another token's. `marks` may be null, and is told of copies until
  /// the step's end.
  void begin_step(const Stream& compute, TokenCount first, bool token, CopyMarks* marks);
  /// What is queued on `compute` next finds the layer's blocks there. True: it has been made to
  /// wait for them, and must be launched Start::kAfter; otherwise they are there since before the
  /// last kernel that had to, or since before the step.
  bool await(const Stream& compute, int layer);
  /// All that reads the layer's blocks is queued: those of another layer may take their place.
  void done(const Stream& compute, int layer);
  /// Behind the step's last kernel.
  void end_step(const Stream& compute);
  /// Bytes that the last step brought back.
  double step_bytes() const;
  /// Bytes that were moved out since the last call.
  double take_moved_bytes();
  /// Bytes that prepare_token() brought back since the last call.
  double take_prepared_bytes();

 private:
  bool changes_type() const { return hot_.k_type != types_.k || hot_.v_type != types_.v; }
  std::int64_t cold_layer_bytes() const { return host_.layer_bytes(); }
  int layers() const { return int(layers_.size()); }
  int groups() const { return (layers() + group_layers_ - 1) / group_layers_; }
  void take_room(const KvRing& ring);
  void fetch(int group);
  void widen(const Stream& compute, int layer);
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

  // Of the step that is queued.
  TokenCount first_ = 0;
  bool token_ = false;
  CopyMarks* marks_ = nullptr;
  /// The first group's blocks [first, second) are on the GPU.
  std::optional<std::pair<TokenCount, TokenCount>> prepared_;

  int group_layers_ = 1;
  VramPiece slots_;      // two groups, as the host has them
  VramPiece widened_;    // one layer in the GPU's types, where those are others
  VramPiece narrow_;     // one block on its way out in the host's types
  VramPiece lists_;      // of slots, widened_ and the block that is brought back; and a position
  TokenCount room_ = 0;  // blocks of a layer
  Event begun_, ready_[2], free_[2];
};

}  // namespace rigcast::engine::cuda
