#include "engine/kernels/cuda/kv/gather_blocks.cuh"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

#include "engine/cuda/cuda_buffer.cuh"
#include "tests/catch.hpp"

using namespace rigcast::engine;
using cuda::BlockFetch;

TEST_CASE("Blocks that lie apart are gathered, and nothing else is written", "[cuda][gpu]") {
  std::mt19937 random(3);
  for (const std::ptrdiff_t bytes : {16, 4096, 16384, 16400, 131072})
    for (const int count : {1, 3, 40}) {
      const std::ptrdiff_t offset = 3 * 16, stride = bytes + 5 * 16;
      const std::size_t all = std::size_t(stride) * std::size_t(2 * count);
      const PinnedBuffer host(all), list(std::size_t(count) * sizeof(BlockFetch)), back(all);
      const DeviceBuffer gpu(all);
      for (std::size_t i = 0; i < all; ++i) host.as<std::uint8_t>()[i] = std::uint8_t(random());
      std::vector<int> order(std::size_t(2 * count));
      for (int i = 0; i < 2 * count; ++i) order[std::size_t(i)] = i;
      std::shuffle(order.begin(), order.end(), random);
      const Stream stream;
      RIGCAST_CUDA_CALL(cudaMemsetAsync(gpu.as(), 0xA5, all, stream.get()));
      for (int i = 0; i < count; ++i)
        list.as<BlockFetch>()[i] = {host.as<std::byte>() + order[std::size_t(i)] * stride,
                                    gpu.as<std::byte>() + 2 * i * stride};
      cuda::gather_blocks(stream, list.on_device<BlockFetch>(), count, offset, bytes);
      RIGCAST_CUDA_CALL(
          cudaMemcpyAsync(back.as(), gpu.as(), all, cudaMemcpyDeviceToHost, stream.get()));
      stream.wait();
      std::vector<std::uint8_t> expected(all, 0xA5);
      for (int i = 0; i < count; ++i)
        std::memcpy(&expected[std::size_t(2 * i * stride + offset)],
                    host.as<std::uint8_t>() + order[std::size_t(i)] * stride + offset,
                    std::size_t(bytes));
      INFO(bytes << " bytes of " << count << " blocks");
      CHECK(std::memcmp(expected.data(), back.as(), all) == 0);
    }
}
