#include "probe/gpu/vram_rates.hpp"

#include <algorithm>

#include "engine/cuda/cuda_buffer.cuh"
#include "probe/gpu/device_time.cuh"
#include "probe/gpu/random_bits.cuh"

namespace rigcast::probe {
namespace {

constexpr int kThreads = 256;
constexpr double kWarmSeconds = 0.2;  // seconds until clocks have risen
constexpr double kSampleSeconds = 0.5;

// Several numbers of blocks are tried: none is best on every GPU.
constexpr int kBlocksPerUnit[] = {4, 8, 32};

// Each thread has kAtOnce loads of 16 bytes in flight; neighbouring threads read neighbouring
// addresses.
template <int kAtOnce>
__global__ void read_all(const uint4* from, std::size_t count, unsigned* never) {
  const std::size_t step = std::size_t(gridDim.x) * blockDim.x;
  std::size_t i = std::size_t(blockIdx.x) * blockDim.x + threadIdx.x;
  unsigned sum = 0;
  for (; i + (kAtOnce - 1) * step < count; i += kAtOnce * step) {
    uint4 v[kAtOnce];
#pragma unroll
    for (int k = 0; k < kAtOnce; ++k) v[k] = __ldcs(from + i + k * step);
#pragma unroll
    for (int k = 0; k < kAtOnce; ++k) sum ^= v[k].x ^ v[k].y ^ v[k].z ^ v[k].w;
  }
  for (; i < count; i += step) sum ^= __ldcs(from + i).x;
  if (sum == 0x5EEDF00Du) *never = sum;  // keeps the compiler from removing the loads
}

// The buffer is far larger than the L2 cache, and at most a quarter of the free memory.
std::size_t buffer_bytes(const cudaDeviceProp& gpu) {
  constexpr std::size_t kMax = std::size_t(2) << 30, kWhole = 1 << 20;
  std::size_t free = 0, total = 0;
  RIGCAST_CUDA_CALL(cudaMemGetInfo(&free, &total));
  const std::size_t bytes = std::max(std::min(kMax, free / 4), 8 * std::size_t(gpu.l2CacheSize));
  return bytes / kWhole * kWhole;
}

// The best of several numbers of blocks: GPUs differ in how many loads must be in flight.
template <class Kernel>
Samples fastest(const cudaDeviceProp& gpu, double bytes, Kernel kernel, const StopFlag& stop = {}) {
  Samples best;
  for (const int blocks : kBlocksPerUnit) {
    stop.throw_if_requested();
    const int all = blocks * gpu.multiProcessorCount;
    const auto rates = several(kSampleSeconds, [&] { return bytes / kernel(all); });
    const Samples samples = samples_of(rates);
    if (samples.median > best.median) best = samples;
  }
  return best;
}

// A buffer larger than the caches, on the current GPU.
class Buffer {
 public:
  Buffer() : gpu_(current()), memory_(buffer_bytes(gpu_)), never_(sizeof(unsigned)) {
    fill_random(memory_, stream_);
    words_ = memory_.bytes() / sizeof(uint4);
    const int any = kBlocksPerUnit[0] * gpu_.multiProcessorCount;
    for (const auto begin = Clock::now(); seconds_since(begin) < kWarmSeconds;) read_once(any);
  }

  Samples read(const StopFlag& stop = {}) const {
    return fastest(
        gpu_, double(words_ * sizeof(uint4)), [&](int blocks) { return read_once(blocks); }, stop);
  }

 private:
  static cudaDeviceProp current() {
    int device = 0;
    RIGCAST_CUDA_CALL(cudaGetDevice(&device));
    cudaDeviceProp gpu{};
    RIGCAST_CUDA_CALL(cudaGetDeviceProperties(&gpu, device));
    return gpu;
  }
  template <class Launch>
  double timed(Launch launch) const {
    return device_seconds(stream_, [&] {
      launch();
      RIGCAST_CUDA_CALL(cudaGetLastError());
    });
  }
  double read_once(int blocks) const {
    return timed([&] {
      read_all<8><<<blocks, kThreads, 0, stream_.get()>>>(memory_.as<uint4>(), words_,
                                                          never_.as<unsigned>());
    });
  }

  cudaDeviceProp gpu_;
  engine::Stream stream_;
  engine::DeviceBuffer memory_, never_;
  std::size_t words_ = 0;
};

}  // namespace

Samples measure_vram() { return Buffer().read(); }

Samples vram_read(const StopFlag& stop) try {
  RIGCAST_CUDA_CALL(cudaSetDevice(0));
  return Buffer().read(stop);
} catch (const engine::CudaFailure&) {
  return {};
}

}  // namespace rigcast::probe
