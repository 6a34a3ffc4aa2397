#pragma once
// One GPU: its memory, and the stream of all kernels.

#include <utility>

#include "engine/cuda/cuda_call.cuh"
#include "engine/cuda/cuda_stream.cuh"
#include "engine/cuda/memory/vram.cuh"

namespace rigcast::engine::cuda {

/// Throws MachineError.
struct DeviceContext {
  explicit DeviceContext(Vram memory) : vram(std::move(memory)) {
    RIGCAST_CUDA_CALL(
        cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, vram.device()));
  }
  DeviceContext(const DeviceContext&) = delete;
  DeviceContext& operator=(const DeviceContext&) = delete;

  Vram vram;
  Stream stream;
  int multiprocessors = 0;
};

}  // namespace rigcast::engine::cuda
