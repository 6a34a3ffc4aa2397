#pragma once
// The function of an FFN without a gate, for the rows of a batch.

#include <cuda_fp16.h>

#include "engine/cuda/cuda_stream.cuh"
#include "engine/kernels/cuda/activations/elementwise.cuh"
#include "engine/kernels/cuda/activations/mlp_function.cuh"

namespace rigcast::engine::cuda {

/// What the function is applied to: rows of F32, one after the other, aligned to 16 bytes.
struct MlpRows {
  const float* x = nullptr;     // [tokens][width]
  const float* bias = nullptr;  // [width], aligned to 16 bytes; null: none
  MlpFunction function{};
  /// Rows that multiply the function's results, at a distance of `times_stride`, which is a
  /// multiple of 4; null: none.
  const float* times = nullptr;
  std::int64_t times_stride = 0;
};

/// out = function(x + bias) * times in F16, clamped to +-65504: rows one after the other, or tiled
/// for `tiled` tokens (tile_order.hpp; then the width is a multiple of kTileColumns). The width is
/// a multiple of 4. Queues its work, kEarly. Throws CudaFailure.
void apply_mlp(const Stream& stream, const Batch& batch, const MlpRows& rows, __half* out,
               int tiled = 0);

}  // namespace rigcast::engine::cuda
