#include "engine/backends/cuda/batch/block_memory.cuh"

#include <algorithm>
#include <cstring>

#include "core/base/error.hpp"
#include "core/scenario/engine_sizes.hpp"
#include "engine/cuda/cuda_call.cuh"

namespace rigcast::engine::cuda {

BlockMemory::BlockMemory(Vram& vram, const Stream& stream, std::size_t block_bytes,
                         const PoolSize& pool, int host_blocks, const Allocator& host_memory)
    : block_bytes_(block_bytes),
      pool_(pool),
      memory_(vram.allocate(std::size_t(pool.on_gpu + 1) * block_bytes, "KV cache")) {
  RIGCAST_ASSERT(pool.on_gpu >= 0 && pool.cold >= 0 && pool.blocks() >= 1 && host_blocks >= 0);
  if (block_bytes == 0) return;
  // Rows are read in units of 16 bytes, also beyond the last row. Those bytes are not used, but
  // must be initialized.
  RIGCAST_CUDA_CALL(cudaMemsetAsync(memory_.as(), 0, memory_.bytes(), stream.get()));
  for (int i = 0; i < pool.cold; i += kColdPieceBlocks)
    cold_.push_back(
        host_memory(std::size_t(std::min(kColdPieceBlocks, pool.cold - i)) * block_bytes));
  for (int i = 0; i < host_blocks; ++i) host_.push_back(host_memory(block_bytes));
}

std::byte* BlockMemory::cold_block(int index) const {
  RIGCAST_ASSERT(is_cold(index) && index < pool_.blocks());
  const int i = index - pool_.on_gpu;
  return cold_[std::size_t(i / kColdPieceBlocks)].get() +
         std::size_t(i % kColdPieceBlocks) * block_bytes_;
}

int BlockMemory::cold_in_a_row(int index) const {
  return kColdPieceBlocks - (index - pool_.on_gpu) % kColdPieceBlocks;
}

// What was queued may still read or write the host's side of a copy: a cold block waits for it.
void BlockMemory::move_out(std::span<const BlockCopy> copies, const Stream& stream) const {
  if (block_bytes_ == 0) return;
  for (const BlockCopy& copy : copies) {
    std::byte* const to = host_.at(std::size_t(copy.to)).get();
    if (is_cold(copy.from)) {
      stream.wait();
      std::memcpy(to, cold_block(copy.from), block_bytes_);
    } else {
      RIGCAST_CUDA_CALL(cudaMemcpyAsync(to, block(copy.from), block_bytes_, cudaMemcpyDeviceToHost,
                                        stream.get()));
    }
  }
}

void BlockMemory::move_in(std::span<const BlockCopy> copies, const Stream& stream) const {
  if (block_bytes_ == 0) return;
  for (const BlockCopy& copy : copies) {
    const std::byte* const from = host_.at(std::size_t(copy.from)).get();
    if (is_cold(copy.to)) {
      stream.wait();
      std::memcpy(cold_block(copy.to), from, block_bytes_);
    } else {
      RIGCAST_CUDA_CALL(cudaMemcpyAsync(block(copy.to), from, block_bytes_, cudaMemcpyHostToDevice,
                                        stream.get()));
    }
  }
}

std::size_t BlockMemory::moved_out_of_gpu(std::span<const BlockCopy> copies) const {
  return std::size_t(
      std::ranges::count_if(copies, [&](const BlockCopy& c) { return !is_cold(c.from); }));
}

std::size_t BlockMemory::moved_to_gpu(std::span<const BlockCopy> copies) const {
  return std::size_t(
      std::ranges::count_if(copies, [&](const BlockCopy& c) { return !is_cold(c.to); }));
}

void BlockMemory::read(int index, std::byte* to, const Stream& stream) const {
  if (block_bytes_ == 0) return;
  if (is_cold(index)) {
    stream.wait();
    std::memcpy(to, cold_block(index), block_bytes_);
    return;
  }
  RIGCAST_CUDA_CALL(
      cudaMemcpyAsync(to, block(index), block_bytes_, cudaMemcpyDeviceToHost, stream.get()));
  stream.wait();
}

void BlockMemory::write(int index, const std::byte* from, const Stream& stream) const {
  if (block_bytes_ == 0) return;
  if (is_cold(index)) {
    std::memcpy(cold_block(index), from, block_bytes_);
    return;
  }
  RIGCAST_CUDA_CALL(
      cudaMemcpyAsync(block(index), from, block_bytes_, cudaMemcpyHostToDevice, stream.get()));
  stream.wait();
}

}  // namespace rigcast::engine::cuda
