#pragma once
// Grouped products of experts: all tokens of a batch that chose an expert are multiplied at once.

#include "engine/backends/cuda/weights/device_model.cuh"
#include "engine/kernels/cuda/batch/small_batch_gemm.cuh"

namespace rigcast::engine::cuda {

/// True if the current GPU uses grouped products for the layer's experts; false: token by token.
inline bool uses_grouped_gemm(const DeviceLayer& layer) {
  return has_small_batch_gemm() && supports_grouped_gemm(layer);
}

}  // namespace rigcast::engine::cuda
