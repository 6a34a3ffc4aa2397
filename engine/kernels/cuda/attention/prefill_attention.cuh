#pragma once
// Causal attention of many tokens at once, over a cache that already holds them.

#include <cuda_fp16.h>

#include "engine/cuda/launch.cuh"
#include "engine/kernels/cuda/attention/merge_partials.cuh"
#include "engine/kernels/cuda/attention/soft_cap.cuh"
#include "engine/kernels/cuda/kv/cache.cuh"

namespace rigcast::engine::cuda {

struct PrefillAttention {
  const __half* queries = nullptr;  // [tokens][heads][head_dim], as place() writes them
  int tokens = 0;
  int heads = 0;   // a multiple of the cache's KV heads
  int window = 0;  // as of DecodeAttention
  /// Shared memory that a block may use; 0: as much as the GPU offers. A smaller value emulates a
  /// GPU that offers less: 65,536 on Turing.
  int shared_bytes = 0;
  SoftCap cap{};
  Sinks sinks = nullptr;
};

/// Writes out [tokens][heads * head_dim]. Token i is at *position + i, where `position` is in the
/// GPU's memory. The cache's blocks hold a multiple of 16 tokens and begin at multiples of 16
/// bytes; its types are any of F16, Q8_0 and Q4_0. head_dim: a multiple of 8 up to 512. Throws
/// CudaFailure.
void attend_causally(const Stream& stream, const PrefillAttention& attention, const Cache& cache,
                     int layer, const int* position, __half* out);

}  // namespace rigcast::engine::cuda
