#include "engine/backends/cuda/cuda_device.hpp"

#include <cuda_runtime.h>

#include <string>

#include "engine/cuda/cuda_call.cuh"
#include "engine/cuda/device_facts.cuh"
#include "engine/cuda/gpu_count.cuh"

namespace rigcast::engine {

Result<GpuDevice> cuda_device() try {
  std::string why;
  if (count_gpus(why) == 0)
    return Error{ErrorKind::kMachine, "--device cuda: " + why, "--device cpu", {}};
  if (const auto refused = gpu_unsupported_reason(0))
    return Error{ErrorKind::kMachine, "--device cuda: " + *refused, "--device cpu", {}};
  cudaDeviceProp properties{};
  RIGCAST_CUDA_CALL(cudaGetDeviceProperties(&properties, 0));
  std::size_t free = 0, total = 0;
  RIGCAST_CUDA_CALL(cudaMemGetInfo(&free, &total));
  int driver = 0;
  RIGCAST_CUDA_CALL(cudaDriverGetVersion(&driver));
  return GpuDevice{properties.name, Bytes{double(total)}, Bytes{double(free)},
                   cuda_version_text(driver), device_facts().integrated};
} catch (const CudaFailure& e) {
  return Error{ErrorKind::kMachine, e.what(), "--device cpu", {}};
}

void release_cuda() { static_cast<void>(cudaDeviceReset()); }

}  // namespace rigcast::engine
