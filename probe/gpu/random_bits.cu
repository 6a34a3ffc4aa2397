#include "probe/gpu/random_bits.cuh"

namespace rigcast::probe {
namespace {

// A hash of the position: every bit of the result depends on every bit of it.
__device__ unsigned mixed(unsigned x) {
  x = (x ^ (x >> 16)) * 0x7FEB352Du;
  x = (x ^ (x >> 15)) * 0x846CA68Bu;
  return x ^ (x >> 16);
}

__global__ void fill_words(unsigned* words, std::size_t count) {
  const std::size_t step = std::size_t(gridDim.x) * blockDim.x;
  for (std::size_t i = std::size_t(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += step)
    words[i] = mixed(unsigned(i));
}

}  // namespace

void fill_random(const engine::DeviceBuffer& buffer, const engine::Stream& stream) {
  fill_words<<<1024, 256, 0, stream.get()>>>(buffer.as<unsigned>(),
                                             buffer.bytes() / sizeof(unsigned));
  RIGCAST_CUDA_CALL(cudaGetLastError());
}

}  // namespace rigcast::probe
