#include "bench/kernel_table/blocks_at_once.hpp"

#include <algorithm>

namespace rigcast::bench {
namespace {

constexpr int kWarp = 32;
// Each quarter of a multiprocessor has a quarter of its registers, and gives them to warps in
// pieces.
constexpr int kQuarters = 4, kRegistersOfPiece = 256;

int rounded_up(int n, int to) { return (n + to - 1) / to * to; }

// Warps for which there are registers.
int warps_by_registers(const GpuLimits& gpu, int of_thread) {
  const int of_warp = rounded_up(std::max(1, of_thread) * kWarp, kRegistersOfPiece);
  return gpu.registers / kQuarters / of_warp * kQuarters;
}

}  // namespace

int blocks_at_once(const GpuLimits& gpu, const BlockNeeds& block) {
  const int warps = (std::max(1, block.threads) + kWarp - 1) / kWarp;
  const int of_warps =
      std::min(gpu.threads / kWarp, warps_by_registers(gpu, block.registers)) / warps;
  const int shared =
      rounded_up(block.shared_bytes + gpu.reserved_shared_bytes, gpu.shared_granularity);
  const int of_memory = shared > 0 ? gpu.shared_bytes / shared : gpu.blocks;
  return gpu.multiprocessors * std::min({gpu.blocks, of_warps, of_memory});
}

}  // namespace rigcast::bench
