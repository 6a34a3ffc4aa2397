#include "engine/backends/cpu/batch/cpu_blocks.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/base/error.hpp"

namespace rigcast::engine {
namespace {

std::vector<int> kept_layers(const KvCache& cache) {
  std::vector<int> layers;
  for (int layer = 0; layer < cache.layers(); ++layer)
    if (cache.keeps_all_tokens(layer)) layers.push_back(layer);
  return layers;
}

void allocate(KvCache& cache, int blocks) {
  cache.allocate_at_once(std::max(1, blocks));
  cache.reserve(blocks * cache.block_tokens());
}

void check(std::span<const BlockCopy> copies, int from, int to) {
  for (const BlockCopy& c : copies)
    RIGCAST_ASSERT(c.from >= 0 && c.from < from && c.to >= 0 && c.to < to);
}

}  // namespace

CpuBlocks::CpuBlocks(KvCache& pool, const BatchLimits& limits)
    : pool_(pool), moved_(pool), limits_(limits), layers_(kept_layers(pool)) {
  RIGCAST_ASSERT(limits.blocks >= 1 && limits.host_blocks >= 0 &&
                 limits.block_tokens == pool.block_tokens());
  RIGCAST_ASSERT(limits.window_blocks == pool.window_blocks() &&
                 (limits.window_blocks == 0 ||
                  (limits.window_blocks <= limits.blocks && limits.host_blocks == 0)));
  allocate(pool_, limits.blocks);
  allocate(moved_, limits.host_blocks);
}

// A layer's part of a block at a time.
void CpuBlocks::copy(ThreadTeam& team, std::span<const BlockCopy> copies, const KvCache& from,
                     const KvCache& to) {
  if (layers_.empty() || copies.empty()) return;
  const auto layers = std::int64_t(layers_.size());
  team.run([&](Worker& worker) {
    worker.parallel_for_nowait(std::int64_t(copies.size()) * layers, 8,
                               [&](std::int64_t begin, std::int64_t end) {
                                 for (std::int64_t i = begin; i < end; ++i) {
                                   const BlockCopy& c = copies[std::size_t(i / layers)];
                                   const int layer = layers_[std::size_t(i % layers)];
                                   std::memcpy(to.block(layer, c.to), from.block(layer, c.from),
                                               std::size_t(from.layer_bytes(layer)));
                                 }
                               });
  });
  const double bytes = double(copies.size()) * double(from.block_bytes());
  copied_ += {0, bytes, bytes};
}

void CpuBlocks::move_out(ThreadTeam& team, std::span<const BlockCopy> copies) {
  check(copies, limits_.blocks, limits_.host_blocks);
  copy(team, copies, pool_, moved_);
}

void CpuBlocks::move_in(ThreadTeam& team, std::span<const BlockCopy> copies) {
  check(copies, limits_.host_blocks, limits_.blocks);
  copy(team, copies, moved_, pool_);
}

void CpuBlocks::read(int block, std::span<std::byte> to) const {
  RIGCAST_ASSERT(block >= 0 && block < limits_.blocks && to.size() >= block_bytes());
  std::byte* at = to.data();
  for (const int layer : layers_) {
    const auto bytes = std::size_t(pool_.layer_bytes(layer));
    std::memcpy(at, pool_.block(layer, block), bytes);
    at += bytes;
  }
}

void CpuBlocks::write(int block, std::span<const std::byte> from) const {
  RIGCAST_ASSERT(block >= 0 && block < limits_.blocks && from.size() >= block_bytes());
  const std::byte* at = from.data();
  for (const int layer : layers_) {
    const auto bytes = std::size_t(pool_.layer_bytes(layer));
    std::memcpy(pool_.block(layer, block), at, bytes);
    at += bytes;
  }
}

MovedBytes CpuBlocks::take_bytes() { return std::exchange(copied_, {}); }

}  // namespace rigcast::engine
