#include "engine/backends/cuda/batch/pool_size.hpp"

#include <algorithm>

#include "core/scenario/engine_sizes.hpp"

namespace rigcast::engine {
namespace {

// One more block is for rows that only fill a step up.
double gpu_bytes(const PoolBlockBytes& bytes, const PoolSize& pool) {
  return double(pool.on_gpu + 1) * bytes.of_gpu + cold_ring_bytes(bytes, pool.cold);
}

bool fits(const PoolBlockBytes& bytes, const PoolSize& pool, const PoolRoom& room) {
  const double on_host = pool.blocks() * bytes.of_host + pool.cold * bytes.of_gpu;
  return (bytes.of_gpu <= 0 || gpu_bytes(bytes, pool) <= room.gpu) &&
         (on_host <= 0 || on_host <= room.host);
}

// The most of `blocks` blocks for which the GPU has room beside the ring of the others: each that
// is there takes of_gpu bytes, and two layers less of the ring.
int most_on_gpu(int blocks, const PoolBlockBytes& bytes, double room) {
  if (gpu_bytes(bytes, {blocks, 0}) <= room) return blocks;
  const double saved = bytes.of_gpu - 2 * bytes.layer;
  if (saved <= 0) return 0;
  const double most = (room - gpu_bytes(bytes, {0, blocks})) / saved;
  return int(std::clamp(most, 0.0, double(blocks - 1)));
}

}  // namespace

double cold_ring_bytes(const PoolBlockBytes& bytes, int cold) {
  return cold > 0 ? (2.0 * cold + bytes.layers) * bytes.layer : 0;
}

PoolSize pool_of(int blocks, const std::optional<KvEviction>& cold, TokenCount block_tokens,
                 const PoolBlockBytes& bytes, const PoolRoom& room) {
  if (!cold || bytes.of_gpu <= 0) return {blocks, 0};
  const int on_gpu = cold->hot_tokens
                         ? int(std::min<TokenCount>(blocks, *cold->hot_tokens / block_tokens))
                         : most_on_gpu(blocks, bytes, room.gpu);
  return {on_gpu, blocks - on_gpu};
}

PoolSize pool_within(int least, int most, const PoolBlockBytes& bytes, const PoolRoom& room) {
  if (bytes.of_gpu <= 0) return {most, 0};
  const double fitting = std::clamp(room.gpu / bytes.of_gpu - 1, 0.0, double(most));
  return {std::max(least, int(fitting)), 0};
}

PoolBlockBytes PoolBlockBytes::without_windows() const {
  PoolBlockBytes others = *this;
  others.of_gpu -= window;
  others.window = 0;
  return others;
}

// One more block, too, is for rows that only fill a step up.
PoolRoom beside_windows(TokenCount windows, const PoolBlockBytes& bytes, PoolRoom room) {
  room.gpu -= double(windows + 1) * bytes.window;
  return room;
}

bool keeps_windows_apart(TokenCount windows, const PoolBlockBytes& bytes, const PoolRoom& room,
                         const SizeIn& size_in) {
  if (windows <= 0 || bytes.window <= 0 || bytes.window >= bytes.of_gpu) return false;
  const int apart = size_in(bytes.without_windows(), beside_windows(windows, bytes, room)).blocks();
  return apart > windows && apart >= size_in(bytes, room).blocks();
}

PoolSize largest_pool(const std::optional<KvEviction>& cold, TokenCount block_tokens,
                      const PoolBlockBytes& bytes, const PoolRoom& room) {
  int fitting = 1, most = int(kMaxKvBlocks);
  while (fitting < most) {
    const int blocks = fitting + (most - fitting + 1) / 2;
    if (fits(bytes, pool_of(blocks, cold, block_tokens, bytes, room), room))
      fitting = blocks;
    else
      most = blocks - 1;
  }
  return pool_of(fitting, cold, block_tokens, bytes, room);
}

}  // namespace rigcast::engine
