#pragma once
// The memory of a pool of KV blocks on a GPU, and of the blocks that were moved to the host.

#include <optional>
#include <span>
#include <vector>

#include "engine/backends/cuda/kv/device_cache.cuh"
#include "engine/cuda/cuda_stream.cuh"
#include "engine/cuda/memory/vram.cuh"
#include "engine/kv/kv_cache.hpp"
#include "engine/run/batch_executor.hpp"

namespace rigcast::engine::cuda {

class BlockMemory {
 public:
  /// Allocates `blocks` blocks for a cache of this layout, one more for rows that only fill a step
  /// up, and `host_blocks` by `host_memory`. Blocks of 0 bytes, of a GPU without a cache, take no
  /// memory. Throws ShortOfMemory, std::bad_alloc.
  BlockMemory(Vram& vram, const Stream& stream, std::size_t block_bytes, int blocks,
              int host_blocks, const Allocator& host_memory);

  std::size_t block_bytes() const { return block_bytes_; }
  std::byte* block(int index) const {
    return memory_.as<std::byte>() + std::size_t(index) * block_bytes_;
  }
  /// The block that rows without a sequence write to.
  std::byte* unused_block() const { return block(blocks_); }

  /// Queue copies between the pool and the host. Work that is queued later sees them complete, so
  /// that both sides may be written to at once by later calls.
  void move_out(std::span<const BlockCopy> copies, const Stream& stream) const;
  void move_in(std::span<const BlockCopy> copies, const Stream& stream) const;

  /// Copy a block from or to memory that need not be pinned, and wait for it.
  void read(int block, std::byte* to, const Stream& stream) const;
  void write(int block, const std::byte* from, const Stream& stream) const;

 private:
  std::size_t block_bytes_;
  int blocks_;
  VramPiece memory_;
  std::vector<std::shared_ptr<std::byte>> host_;
};

}  // namespace rigcast::engine::cuda
