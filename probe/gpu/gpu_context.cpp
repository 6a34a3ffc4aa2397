#include "probe/gpu/gpu_context.hpp"

#include <algorithm>
#include <chrono>

#include "engine/cuda/cuda_call.cuh"
#include "probe/gpu/nvml.hpp"

namespace rigcast::probe {
namespace {

constexpr int kSamples = 3;

// Seconds that it took.
double make_context(int device) {
  const auto begin = std::chrono::steady_clock::now();
  RIGCAST_CUDA_CALL(cudaSetDevice(device));
  RIGCAST_CUDA_CALL(cudaFree(nullptr));  // older runtimes create it at the first call that needs it
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

}  // namespace

void measure_context(int device, Gpu& gpu) {
  const Nvml nvml;
  if (const auto now = nvml.memory(gpu.bus_id)) {  // stays set if there is no memory for a context
    gpu.memory = now->total;
    gpu.used_by_others = now->used;
  }
  std::vector<double> others, own, start;
  for (int i = 0; i < kSamples; ++i) {
    RIGCAST_CUDA_CALL(cudaSetDevice(device));
    RIGCAST_CUDA_CALL(cudaDeviceReset());
    const auto before = nvml.memory(gpu.bus_id);
    start.push_back(make_context(device));
    const auto after = nvml.memory(gpu.bus_id);
    if (!before || !after) break;
    others.push_back(before->used.value);
    own.push_back(std::max(0.0, after->used.value - before->used.value));
  }
  make_context(device);
  gpu.start = samples_of(start);
  if (own.size() == kSamples) {
    gpu.context = samples_of(own);
    gpu.used_by_others = Bytes{samples_of(others).median};
    return;
  }
  gpu.used_by_others.reset();
  // Without the driver's library only the free memory with a context is known.
  std::size_t free = 0, total = 0;
  RIGCAST_CUDA_CALL(cudaMemGetInfo(&free, &total));
  gpu.memory = Bytes{double(total)};
  gpu.context = samples_of({double(total - free)});
}

}  // namespace rigcast::probe
