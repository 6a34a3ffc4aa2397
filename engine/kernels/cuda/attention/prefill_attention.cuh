#pragma once
// Attention of many tokens at once, causal, over the cache that holds them already.

#include <cuda_fp16.h>

#include "engine/cuda/launch.cuh"
#include "engine/kernels/cuda/kv/cache.cuh"

namespace rigcast::engine::cuda {

struct PrefillAttention {
  const __half* queries = nullptr;  // [tokens][heads][head_dim], as place() leaves them
  int tokens = 0;
  int heads = 0;   // a multiple of the cache's KV heads
  int window = 0;  // the last tokens that each sees, itself counted; 0: all
  /// Shared memory that a block may take; 0: as much as the GPU gives. A smaller figure stands in
  /// for a GPU that gives less: 65,536 on Turing.
  int shared_bytes = 0;
};

/// out [tokens][heads * head_dim]. Token i is at *position + i, a position of the GPU's memory. The
/// cache's blocks hold a multiple of 16 tokens and begin at multiples of 16 bytes; its types are
/// any of F16, Q8_0 and Q4_0. head_dim: a multiple of 8 up to 256. Throws CudaFailure.
void attend_causally(const Stream& stream, const PrefillAttention& attention, const Cache& cache,
                     int layer, const int* position, __half* out);

}  // namespace rigcast::engine::cuda
