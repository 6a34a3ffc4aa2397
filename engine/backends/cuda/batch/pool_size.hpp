#pragma once
// How many blocks a pool has, and how many of them are in the GPU's memory.

#include <functional>
#include <optional>

#include "core/base/units.hpp"
#include "engine/kv/kv_eviction.hpp"

namespace rigcast::engine {

/// Blocks [0, on_gpu) are in the GPU's memory. Those after them are cold: the host keeps them in
/// pinned memory, and a step copies what it needs of them to the GPU, layer by layer.
struct PoolSize {
  int on_gpu = 0, cold = 0;

  int blocks() const { return on_gpu + cold; }
};

/// Bytes of a block: of the layers whose cache the GPU attends to, and of the host's.
struct PoolBlockBytes {
  double of_gpu = 0, of_host = 0;
  double layer = 0;   // of one of the GPU's layers
  int layers = 0;     // the GPU's
  double window = 0;  // of of_gpu: of layers with a window

  /// Of blocks of the layers that see all tokens.
  PoolBlockBytes without_windows() const;
};

/// Bytes that a pool may take. `host`: blocks and what of them is moved out; infinity: no limit.
struct PoolRoom {
  double gpu = 0, host = 0;
};

/// Bytes of the ring through which so many cold blocks pass: two layers of each, and one of each
/// layer, by which the places of one layer are ahead of those of the layer before it.
double cold_ring_bytes(const PoolBlockBytes& bytes, int cold);

/// The pool's parts where it has `blocks` blocks. `cold` nullopt: all are on the GPU. Otherwise
/// those of cold->hot_tokens are, or as many as `room` has space for beside the ring of the others.
PoolSize pool_of(int blocks, const std::optional<KvEviction>& cold, TokenCount block_tokens,
                 const PoolBlockBytes& bytes, const PoolRoom& room);

/// A pool of `most` blocks that are all on the GPU; where it has no room for them, of as many as
/// fit, but at least `least`.
PoolSize pool_within(int least, int most, const PoolBlockBytes& bytes, const PoolRoom& room);

/// Whether layers with a window have a pool of `windows` blocks of their own, and what that leaves
/// of the room: where the pool of the others, whose size `size_in` tells, is then no smaller than
/// before, and larger than that of windows. 0: no layer has a window.
using SizeIn = std::function<PoolSize(const PoolBlockBytes&, const PoolRoom&)>;
bool keeps_windows_apart(TokenCount windows, const PoolBlockBytes& bytes, const PoolRoom& room,
                         const SizeIn& size_in);
/// The room beside a pool of so many blocks of windows.
PoolRoom beside_windows(TokenCount windows, const PoolBlockBytes& bytes, PoolRoom room);

/// The largest pool that fits, of up to kMaxKvBlocks blocks; at least one block.
PoolSize largest_pool(const std::optional<KvEviction>& cold, TokenCount block_tokens,
                      const PoolBlockBytes& bytes, const PoolRoom& room);

}  // namespace rigcast::engine
