#pragma once
// Copies of blocks of the cache from the host's pinned memory by the GPU itself.

#include <cstddef>

#include "engine/cuda/cuda_stream.cuh"

namespace rigcast::engine::cuda {

/// Where a block is on the host, and its place on the GPU.
struct BlockFetch {
  const std::byte* from = nullptr;
  std::byte* to = nullptr;
};

/// Queues copies of `bytes` bytes at `offset` of each of `count` blocks. `fetches`: in memory that
/// the GPU reads, left as it is until the work has ended. Bytes, offset and addresses: multiples
/// of 16. One launch, where a copy for each run of blocks takes a microsecond or two to start: for
/// blocks that lie apart. Throws CudaFailure.
void gather_blocks(const Stream& stream, const BlockFetch* fetches, int count,
                   std::ptrdiff_t offset, std::ptrdiff_t bytes);

}  // namespace rigcast::engine::cuda
