// What gather_blocks.cu does, on the simulated GPU.
#include <cstring>

#include "engine/kernels/cuda/kv/gather_blocks.cuh"
#include "tests/streams/simulated_cuda.cuh"

namespace rigcast::engine::cuda {

void gather_blocks(const Stream& stream, const BlockFetch* fetches, int count,
                   std::ptrdiff_t offset, std::ptrdiff_t bytes) {
  simulated_cuda::launch(stream.get(), [=](simulated_cuda::Accesses& a) {
    for (int i = 0; i < count; ++i) {
      a.read(fetches + i, sizeof(BlockFetch));
      const auto& [from, to] = fetches[i];
      a.read(from + offset, std::size_t(bytes));
      a.write(to + offset, std::size_t(bytes));
      std::memcpy(to + offset, from + offset, std::size_t(bytes));
    }
  });
}

}  // namespace rigcast::engine::cuda
