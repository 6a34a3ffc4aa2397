#pragma once
// Blocks of keys and values in the host's memory that many sequences share, and those that were
// moved out of the pool.

#include <cstddef>
#include <span>
#include <vector>

#include "engine/kv/kv_cache.hpp"
#include "engine/run/batch_executor.hpp"
#include "engine/threads/thread_team.hpp"

namespace rigcast::engine {

class CpuBlocks {
 public:
  /// Allocates limits.blocks blocks in `pool`, a cache that has none yet and outlives this object,
  /// limits.window_blocks of layers with a window, if these are apart, and limits.host_blocks to
  /// which blocks can be moved: one piece each, in which a layer's blocks are contiguous. Throws
  /// what the cache's allocator throws.
  CpuBlocks(KvCache& pool, const BatchLimits& limits);

  /// Copy blocks out of the pool and back, with the whole team. Throws Interrupted.
  void move_out(ThreadTeam& team, std::span<const BlockCopy> copies);
  void move_in(ThreadTeam& team, std::span<const BlockCopy> copies);
  /// Bytes of a block of the pool.
  [[nodiscard]] std::size_t block_bytes() const { return std::size_t(pool_.block_bytes()); }
  /// Copy a block of the pool, layer by layer, on the calling thread: nothing is touched that work
  /// of another thread on other blocks uses, not the count of bytes either.
  void read(int block, std::span<std::byte> to) const;
  void write(int block, std::span<const std::byte> from) const;
  /// Bytes that were copied since the last call.
  MovedBytes take_bytes();

 private:
  void copy(ThreadTeam& team, std::span<const BlockCopy> copies, const KvCache& from,
            const KvCache& to);

  KvCache& pool_;
  KvCache moved_;
  BatchLimits limits_;
  std::vector<int> layers_;  // that are kept, but for those whose blocks are apart
  MovedBytes copied_;
};

}  // namespace rigcast::engine
