#include "engine/kernels/cuda/kv/gather_blocks.cuh"

#include <algorithm>
#include <cstdint>

#include "engine/cuda/launch.cuh"

namespace rigcast::engine::cuda {
namespace {

constexpr int kThreads = 512, kLoads = 8;        // of 16 bytes, by each thread at once
constexpr std::ptrdiff_t kStep = 16 * kThreads;  // bytes between a thread's loads
constexpr std::ptrdiff_t kPieceBytes = kLoads * kStep;
// Loads that are under way at once cover the latency of the link (50 GB/s on PCIe 5.0 x16 of an
// H200 with 8 blocks or more), on few multiprocessors: the others compute.
constexpr std::int64_t kMaxBlocks = 16;

__global__ void __launch_bounds__(kThreads)
    gather(const BlockFetch* fetches, std::int64_t pieces, int pieces_of_block,
           std::ptrdiff_t offset, std::ptrdiff_t bytes) {
  for (std::int64_t piece = blockIdx.x; piece < pieces; piece += gridDim.x) {
    const BlockFetch f = fetches[piece / pieces_of_block];
    const std::ptrdiff_t first =
        piece % pieces_of_block * kPieceBytes + std::ptrdiff_t(threadIdx.x) * 16;
    uint4 v[kLoads];
#pragma unroll
    for (int i = 0; i < kLoads; ++i)
      if (first + i * kStep < bytes)
        v[i] = __ldcs(reinterpret_cast<const uint4*>(f.from + offset + first + i * kStep));
#pragma unroll
    for (int i = 0; i < kLoads; ++i)
      if (first + i * kStep < bytes)
        *reinterpret_cast<uint4*>(f.to + offset + first + i * kStep) = v[i];
  }
}

}  // namespace

void gather_blocks(const Stream& stream, const BlockFetch* fetches, int count,
                   std::ptrdiff_t offset, std::ptrdiff_t bytes) {
  if (count < 1 || bytes < 1) return;
  const int of_block = int((bytes + kPieceBytes - 1) / kPieceBytes);
  const std::int64_t pieces = std::int64_t(count) * of_block;
  launch(stream, {dim3(unsigned(std::min(pieces, kMaxBlocks))), dim3(kThreads)}, Start::kAfter,
         gather, fetches, pieces, of_block, offset, bytes);
}

}  // namespace rigcast::engine::cuda
