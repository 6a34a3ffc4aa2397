#include "engine/backends/cuda/batch/block_memory.cuh"

#include "core/base/error.hpp"
#include "engine/cuda/cuda_call.cuh"

namespace rigcast::engine::cuda {

BlockMemory::BlockMemory(Vram& vram, const Stream& stream, std::size_t block_bytes, int blocks,
                         int host_blocks, const Allocator& host_memory)
    : block_bytes_(block_bytes),
      blocks_(blocks),
      memory_(vram.allocate(std::size_t(blocks + 1) * block_bytes, "KV cache")) {
  RIGCAST_ASSERT(blocks >= 1 && host_blocks >= 0);
  if (block_bytes == 0) return;
  // Rows are read in units of 16 bytes, also beyond the last row. Those bytes are not used, but
  // must be initialized.
  RIGCAST_CUDA_CALL(cudaMemsetAsync(memory_.as(), 0, memory_.bytes(), stream.get()));
  for (int i = 0; i < host_blocks; ++i) host_.push_back(host_memory(block_bytes));
}

void BlockMemory::move_out(std::span<const BlockCopy> copies, const Stream& stream) const {
  if (block_bytes_ == 0) return;
  for (const BlockCopy& copy : copies)
    RIGCAST_CUDA_CALL(cudaMemcpyAsync(host_.at(std::size_t(copy.to)).get(), block(copy.from),
                                      block_bytes_, cudaMemcpyDeviceToHost, stream.get()));
}

void BlockMemory::move_in(std::span<const BlockCopy> copies, const Stream& stream) const {
  if (block_bytes_ == 0) return;
  for (const BlockCopy& copy : copies)
    RIGCAST_CUDA_CALL(cudaMemcpyAsync(block(copy.to), host_.at(std::size_t(copy.from)).get(),
                                      block_bytes_, cudaMemcpyHostToDevice, stream.get()));
}

void BlockMemory::read(int index, std::byte* to, const Stream& stream) const {
  if (block_bytes_ == 0) return;
  RIGCAST_CUDA_CALL(
      cudaMemcpyAsync(to, block(index), block_bytes_, cudaMemcpyDeviceToHost, stream.get()));
  stream.wait();
}

void BlockMemory::write(int index, const std::byte* from, const Stream& stream) const {
  if (block_bytes_ == 0) return;
  RIGCAST_CUDA_CALL(
      cudaMemcpyAsync(block(index), from, block_bytes_, cudaMemcpyHostToDevice, stream.get()));
  stream.wait();
}

}  // namespace rigcast::engine::cuda
