#pragma once
// Causal attention of many tokens at once, over a cache that already holds them.

#include "engine/cuda/launch.cuh"
#include "engine/kernels/cuda/attention/prefill_parameters.cuh"

namespace rigcast::engine::cuda {

/// Writes rows of out [tokens][heads * head_dim]. Token i is at *position + i, where `position` is
/// in the GPU's memory. The cache's blocks hold a multiple of 16 tokens and begin at multiples of
/// 16 bytes; its types are any of F16, Q8_0 and Q4_0. head_dim: a multiple of 8 up to 512. Throws
/// CudaFailure.
void attend_causally(const Stream& stream, const PrefillAttention& attention, const Cache& cache,
                     int layer, const int* position, const HalfRows& out);

}  // namespace rigcast::engine::cuda
