#pragma once
// The memory of a pool of KV blocks, on a GPU and of cold ones on the host, and of the blocks that
// were moved out of the pool.

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "engine/backends/cuda/batch/pool_size.hpp"
#include "engine/cuda/cuda_stream.cuh"
#include "engine/cuda/memory/vram.cuh"
#include "engine/kv/kv_cache.hpp"
#include "engine/run/batch_executor.hpp"

namespace rigcast::engine::cuda {

class BlockMemory {
 public:
  /// Allocates a pool of blocks for a cache of this layout: those on the GPU, and one more for rows
  /// that only fill a step up; cold ones, and `host_blocks` for what is moved out, by
  /// `host_memory`, which is pinned. Blocks of 0 bytes, of a GPU without a cache, take no memory.
  /// Throws ShortOfMemory, std::bad_alloc.
  BlockMemory(Vram& vram, const Stream& stream, std::size_t block_bytes, const PoolSize& pool,
              int host_blocks, const Allocator& host_memory);

  std::size_t block_bytes() const { return block_bytes_; }
  const PoolSize& pool() const { return pool_; }
  bool is_cold(int index) const { return index >= pool_.on_gpu; }
  /// A block on the GPU.
  std::byte* block(int index) const {
    return memory_.as<std::byte>() + std::size_t(index) * block_bytes_;
  }
  /// The block that rows without a sequence write to.
  std::byte* unused_block() const { return block(pool_.on_gpu); }
  /// A cold block in the host's memory.
  std::byte* cold_block(int index) const;
  /// The number of cold blocks, from this one on, that are contiguous.
  int cold_in_a_row(int index) const;

  /// Copy blocks between the pool and those that are moved out. Copies of blocks on the GPU are
  /// queued: work that is queued later sees them complete, so that both sides may be written to at
  /// once by later calls. Copies of cold blocks are complete on return.
  void move_out(std::span<const BlockCopy> copies, const Stream& stream) const;
  void move_in(std::span<const BlockCopy> copies, const Stream& stream) const;
  /// The blocks of the pool among these that are on the GPU, whose copies go over the link.
  std::size_t moved_out_of_gpu(std::span<const BlockCopy> copies) const;
  std::size_t moved_to_gpu(std::span<const BlockCopy> copies) const;

  /// Copy a block from or to memory that need not be pinned, and wait for it. A cold block's write
  /// uses no stream.
  void read(int block, std::byte* to, const Stream& stream) const;
  void write(int block, const std::byte* from, const Stream& stream) const;

 private:
  std::size_t block_bytes_;
  PoolSize pool_;
  VramPiece memory_;
  std::vector<std::shared_ptr<std::byte>> cold_;  // pieces of several blocks
  std::vector<std::shared_ptr<std::byte>> host_;
};

}  // namespace rigcast::engine::cuda
