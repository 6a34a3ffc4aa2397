#pragma once
// Queries, keys and values of new tokens: biases, norms of heads, rotary position embedding, and
// the way into the cache.

#include <cuda_fp16.h>

#include "engine/cuda/cuda_stream.cuh"
#include "engine/kernels/cuda/kv/cache.cuh"
#include "engine/kernels/cuda/kv/new_tokens.cuh"

namespace rigcast::engine::cuda {

/// turns[token][pair]: tokens at *position, *position + 1, ... turn pair i by their position times
/// frequencies[i] [pairs]. In double: an F32 frequency would be off by 0.004 rad at position
/// 131072. To be launched after the kernel before has ended. All pointers on the GPU. Throws
/// CudaFailure.
void make_turns(const Stream& stream, const double* frequencies, int pairs, int tokens,
                const int* position, Turn* turns);

/// What queries are multiplied by before they are rounded to halves: scores are then in powers of
/// two, query . key = log2(e) / sqrt(head_dim) * (the model's query . key).
float query_scale(int head_dim);

/// Places `tokens` tokens at positions *position, *position + 1, ...: their keys and values go to
/// the cache's layer in the cache's types (F16, Q8_0, Q4_0), rounded as the CPU's cache does; their
/// queries, times query_scale, to `queries` [token][heads][head_dim]. head_dim: a multiple of 8 up
/// to 256, and of the types' blocks. All pointers on the GPU. Throws CudaFailure.
void place(const Stream& stream, const Placement& placement, const Cache& cache, int layer,
           int tokens, const int* position, __half* queries);

}  // namespace rigcast::engine::cuda
