#pragma once

#include <cuda_fp16.h>

#include <cstdint>

#include "engine/cuda/cuda_stream.cuh"
#include "engine/kernels/cuda/batch/small_batch_gemm.cuh"

namespace rigcast::engine::cuda {

/// Tiles the rows of x[tokens][columns], of a multiple of 256 columns (tile_order.hpp). Queues its
/// work, kEarly. Throws CudaFailure, and std::invalid_argument where shapes do not fit.
void tile_rows(const Stream& stream, const Fp16Batch& x, std::int64_t columns, __half* tiled);

}  // namespace rigcast::engine::cuda
