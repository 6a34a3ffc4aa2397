#pragma once
// Random values that fill a cache when the values do not matter.

#include <cstdint>

#include "engine/cuda/cuda_stream.cuh"

namespace rigcast::engine::cuda {

/// out[i], in [-1, 1), is a function of first + i. Throws CudaFailure.
void random_values(const Stream& stream, std::uint64_t first, float* out, std::int64_t count);

}  // namespace rigcast::engine::cuda
