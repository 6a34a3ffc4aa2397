#include "engine/backends/cuda/batch/pool_size.hpp"

#include <limits>

#include "core/scenario/engine_sizes.hpp"
#include "tests/catch.hpp"

using namespace rigcast;
using namespace rigcast::engine;

namespace {

constexpr double kNoLimit = std::numeric_limits<double>::infinity();
constexpr PoolBlockBytes kBytes{320, 0, 10, 32};  // of a block of 32 layers

double gpu_bytes(const PoolSize& pool) {
  return (pool.on_gpu + 1) * kBytes.of_gpu + cold_ring_bytes(kBytes, pool.cold);
}

}  // namespace

TEST_CASE("A pool's blocks are on the GPU unless some may be cold", "[engine][pool]") {
  const PoolSize pool = pool_of(50, {}, 32, kBytes, {0, kNoLimit});
  CHECK(pool.on_gpu == 50);
  CHECK(pool.cold == 0);
  CHECK(cold_ring_bytes(kBytes, 0) == 0);
}

TEST_CASE("A stated number of tokens stays on the GPU, in whole blocks", "[engine][pool]") {
  const KvEviction cold{.hot_tokens = 100};
  CHECK(pool_of(50, cold, 32, kBytes, {0, kNoLimit}).on_gpu == 3);
  CHECK(pool_of(50, cold, 32, kBytes, {0, kNoLimit}).cold == 47);
  CHECK(pool_of(2, cold, 32, kBytes, {0, kNoLimit}).cold == 0);
  CHECK(pool_of(50, KvEviction{.hot_tokens = 0}, 32, kBytes, {1e9, kNoLimit}).on_gpu == 0);
  // Where the GPU attends to no cache, nothing of a block is cold.
  CHECK(pool_of(50, cold, 32, {0, 320, 10, 0}, {0, kNoLimit}).cold == 0);
}

TEST_CASE("Windows have a pool of their own where the other layers' is larger", "[engine][pool]") {
  PoolBlockBytes bytes{320, 0, 10, 32};
  bytes.window = 240;  // of 24 layers
  CHECK(bytes.without_windows().of_gpu == 80);
  const auto within = [](int most) {
    return [most](const PoolBlockBytes& of, const PoolRoom& in) {
      return pool_within(1, most, of, in);
    };
  };
  const PoolRoom wide{1e6, kNoLimit};
  CHECK(keeps_windows_apart(20, bytes, wide, within(50)));
  CHECK_FALSE(keeps_windows_apart(50, bytes, wide, within(50)));
  CHECK_FALSE(keeps_windows_apart(0, bytes, wide, within(50)));
  CHECK_FALSE(keeps_windows_apart(20, kBytes, wide, within(50)));  // no layer has a window
  // All that fits in 100 blocks of all layers: 21 of windows leave room for 335 of the others.
  const PoolRoom room{101 * 320, kNoLimit};
  CHECK(keeps_windows_apart(20, bytes, room, within(1000)));
  CHECK(beside_windows(20, bytes, room).gpu == room.gpu - 21 * 240);
  CHECK(pool_within(1, 1000, bytes.without_windows(), beside_windows(20, bytes, room)).on_gpu ==
        (101 * 320 - 21 * 240) / 80 - 1);
  // A room in which windows leave less than they take.
  CHECK_FALSE(keeps_windows_apart(20, bytes, {15 * 320, kNoLimit}, within(1000)));
}

TEST_CASE("As many blocks are on the GPU as fit beside the ring of the others", "[engine][pool]") {
  const KvEviction cold{};
  for (double room = 1400; room < 20'000; room += 37) {
    const PoolSize pool = pool_of(50, cold, 32, kBytes, {room, kNoLimit});
    CHECK(pool.blocks() == 50);
    if (pool.on_gpu > 0) CHECK(gpu_bytes(pool) <= room);
    if (pool.on_gpu < 50) CHECK(gpu_bytes({pool.on_gpu + 1, pool.cold - 1}) > room);
  }
  CHECK(pool_of(50, cold, 32, kBytes, {51 * 320, kNoLimit}).cold == 0);
  CHECK(pool_of(50, cold, 32, kBytes, {51 * 320 - 1, kNoLimit}).cold > 0);
  // The ring of two layers has all of every block.
  CHECK(pool_of(50, cold, 32, {20, 0, 10, 2}, {900, kNoLimit}).on_gpu == 0);
}

TEST_CASE("A pool that may shrink has the blocks that fit, and its least in any case",
          "[engine][pool]") {
  const auto blocks = [](double gpu) {
    const PoolSize pool = pool_within(4, 50, kBytes, {gpu, kNoLimit});
    CHECK(pool.cold == 0);
    return pool.on_gpu;
  };
  CHECK(blocks(1e9) == 50);
  CHECK(blocks(51 * 320) == 50);
  CHECK(blocks(51 * 320 - 1) == 49);
  CHECK(blocks(5 * 320) == 4);
  CHECK(blocks(0) == 4);
  CHECK(blocks(-1e9) == 4);
  // Where the GPU attends to no cache, its memory is no limit.
  CHECK(pool_within(4, 50, {0, 320, 10, 0}, {0, kNoLimit}).on_gpu == 50);
}

TEST_CASE("An open pool is as large as both memories have room for", "[engine][pool]") {
  const auto largest = [](const std::optional<KvEviction>& cold, double gpu, double host) {
    return largest_pool(cold, 32, kBytes, {gpu, host});
  };
  CHECK(largest({}, 11 * 320, 0).blocks() == 10);
  CHECK(largest({}, 11 * 320 - 1, 0).blocks() == 9);
  CHECK(largest({}, 0, 0).blocks() == 1);
  const PoolSize streamed = largest(KvEviction{.hot_tokens = 0}, 1e6, 100 * 320);
  CHECK(streamed.cold == 100);
  CHECK(streamed.on_gpu == 0);
  const PoolSize paged = largest(KvEviction{}, 10'000, 100 * 320);
  CHECK(paged.cold == 100);
  CHECK(gpu_bytes(paged) <= 10'000);
  CHECK(gpu_bytes({paged.on_gpu + 1, paged.cold}) > 10'000);
  // No cache on the GPU: its memory is no limit. No limit of the host's: as many as kernels list.
  CHECK(largest_pool({}, 32, {0, 320, 10, 0}, {-5, 640}).blocks() == 2);
  CHECK(largest_pool({}, 32, {0, 320, 10, 0}, {-5, kNoLimit}).blocks() == int(kMaxKvBlocks));
}
