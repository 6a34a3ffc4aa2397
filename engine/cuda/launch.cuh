#pragma once
// Kernel launches: every launch is checked, and consecutive kernels may overlap (programmatic
// dependent launch).

#include <cuda_runtime.h>

#include <utility>

#include "engine/cuda/cuda_stream.cuh"
#include "engine/cuda/device_facts.cuh"

namespace rigcast::engine::cuda {

/// A kernel's shape.
struct Shape {
  dim3 grid, block;
  std::size_t shared_bytes = 0;  // beyond what the kernel declares
  unsigned cluster = 1;          // blocks of a cluster; more than one: Hopper or later
};

/// When a kernel may start. kAfter: after all previous work. kEarly: once every block of the
/// previous kernel has called allow_next_kernel() or ended; what that kernel writes is visible
/// after wait_for_inputs(). Every kernel launched kEarly must call wait_for_inputs() before it
/// reads or overwrites anything that previous kernels use. Code for GPUs before Hopper treats
/// kEarly as kAfter.
enum class Start { kAfter, kEarly };

template <class... Parameters, class... Arguments>
void launch(const Stream& stream, const Shape& shape, Start start, void (*kernel)(Parameters...),
            Arguments&&... arguments) {
  cudaLaunchConfig_t config{};
  config.gridDim = shape.grid;
  config.blockDim = shape.block;
  config.dynamicSmemBytes = shape.shared_bytes;
  config.stream = stream.get();
  cudaLaunchAttribute attributes[2] = {};
  config.attrs = attributes;
  // Code compiled for older capabilities cannot wait for its inputs, wherever it runs.
  if (start == Start::kEarly && device_facts().compiled_for >= 90) {
    cudaLaunchAttribute& early = attributes[config.numAttrs++];
    early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    early.val.programmaticStreamSerializationAllowed = 1;
  }
  if (shape.cluster > 1) {
    cudaLaunchAttribute& cluster = attributes[config.numAttrs++];
    cluster.id = cudaLaunchAttributeClusterDimension;
    cluster.val.clusterDim = {shape.cluster, 1, 1};
  }
  RIGCAST_CUDA_CALL(
      cudaLaunchKernelEx(&config, kernel, Parameters(std::forward<Arguments>(arguments))...));
}

/// The clusters of a launch of this shape that run at once on the current GPU.
template <class... Parameters>
int most_clusters(const Shape& shape, void (*kernel)(Parameters...)) {
  cudaLaunchConfig_t config{};
  config.gridDim = shape.grid;
  config.blockDim = shape.block;
  config.dynamicSmemBytes = shape.shared_bytes;
  cudaLaunchAttribute cluster{};
  cluster.id = cudaLaunchAttributeClusterDimension;
  cluster.val.clusterDim = {shape.cluster, 1, 1};
  config.attrs = &cluster;
  config.numAttrs = 1;
  int count = 0;
  RIGCAST_CUDA_CALL(cudaOccupancyMaxActiveClusters(&count, kernel, &config));
  return count;
}

#ifdef __CUDACC__
/// After this call, results of earlier kernels can be read, and their inputs overwritten.
__device__ __forceinline__ void wait_for_inputs() {
#if __CUDA_ARCH__ >= 900
  cudaGridDependencySynchronize();
#endif
}

/// Allows the next kernel to start with work that does not depend on this one.
__device__ __forceinline__ void allow_next_kernel() {
#if __CUDA_ARCH__ >= 900
  cudaTriggerProgrammaticLaunchCompletion();
#endif
}
#endif

}  // namespace rigcast::engine::cuda
