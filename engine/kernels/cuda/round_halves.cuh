#pragma once
// Halves to 8-bit integers: what attention over a batch gives, for the product that follows.

#include <cuda_fp16.h>

#include "engine/cuda/cuda_stream.cuh"
#include "engine/kernels/cuda/matrix.cuh"

namespace rigcast::engine::cuda {

/// Rounds `count` values, a multiple of 32, as round_tokens does with the same in F32. x is aligned
/// to 8 bytes. Launched kEarly. Throws CudaFailure, std::invalid_argument.
void round_halves(const __half* x, std::int64_t count, const Rounded& out, const Stream& stream);

}  // namespace rigcast::engine::cuda
