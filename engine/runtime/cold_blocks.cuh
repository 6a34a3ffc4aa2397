#pragma once
// Blocks of a KV cache that have left the GPU's memory: where the host keeps them, their way out,
// and their way back into a ring of two layers whenever attention needs them.

#include <memory>
#include <span>
#include <vector>

#include "engine/cuda/cuda_stream.cuh"
#include "engine/cuda/vram.cuh"
#include "engine/kernels/cuda/cache.cuh"
#include "engine/kv/kv_cache.hpp"
#include "engine/runtime/copy_marks.cuh"

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
  /// Makes room on the GPU for two layers of all cold blocks; true: places of blocks have changed.
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

  // Of one step, queued or recorded; blocks [first, count()) come back for it.
  /// Begins with the first layers, after all that is queued on `compute`. `marks` may be null, and
  /// is told of copies until the step's last done().
  void begin_step(const Stream& compute, TokenCount first, CopyMarks* marks);
  /// What is queued on `compute` next finds the layer's blocks there. It must be launched
  /// Start::kAfter.
  void await(const Stream& compute, int layer);
  /// All that reads the layer's blocks is queued: those of another layer may take their place.
  void done(const Stream& compute, int layer);
  /// Bytes that a step brings back.
  double step_bytes(TokenCount first) const;
  /// Bytes that were moved out since the last call.
  double take_moved_bytes();

 private:
  bool changes_type() const { return hot_.k_type != types_.k || hot_.v_type != types_.v; }
  std::int64_t cold_layer_bytes() const { return host_.layer_bytes(); }
  void fetch(int layer);
  void widen(const Stream& compute, int layer);
  std::byte* slot(int layer) const;

  Vram& vram_;
  Cache hot_;
  KvTypes types_;
  std::vector<int> layers_;
  KvCache host_;
  Stream in_, out_;
  TokenCount count_ = 0, moving_ = 0, first_ = 0;
  double moved_bytes_ = 0;
  CopyMarks* marks_ = nullptr;

  VramPiece slots_;      // two layers, as the host has them
  VramPiece widened_;    // one layer in the GPU's types, where those are others
  VramPiece narrow_;     // one block on its way out in the host's types
  VramPiece lists_;      // of slots, widened_ and the block that is brought back; and a position
  TokenCount room_ = 0;  // blocks of a slot
  Event begun_, ready_[2], free_[2];
};

}  // namespace rigcast::engine::cuda
