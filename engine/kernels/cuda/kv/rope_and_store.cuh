#pragma once
// Biases, head norms and rotary position embedding for the queries, keys and values of new tokens,
// and the store of keys and values into the cache.

#include <cuda_fp16.h>

#include "engine/cuda/cuda_stream.cuh"
#include "engine/kernels/cuda/kv/cache.cuh"
#include "engine/kernels/cuda/kv/new_tokens.cuh"

namespace rigcast::engine::cuda {

/// Computes rope_cos_sin[row][pair] for the rows of a step: pair i is rotated by the row's position
/// times frequencies[i] ([pairs], in radians), and lengthened by `magnitude`. Frequencies are
/// double: in F32 the angle would be off by 0.004 rad at position 131072. Must be launched after
/// the previous kernel has ended. All pointers are to GPU memory. Throws CudaFailure.
void compute_rope_angles(const Stream& stream, const double* frequencies, int pairs, int tokens,
                         const StepRows& rows, RopeAngle* rope_cos_sin, float magnitude = 1);

/// The factor on queries before they are rounded to F16. Scores then are exponents of two: query .
/// key = log2(e) / sqrt(head_dim) * (the model's query . key).
float query_scale(int head_dim);
/// The same with the inputs' own scale of scores, if they have one.
float query_scale(const NewTokenInputs& inputs, int head_dim);

/// Applies the operations to the `tokens` rows of a step. Keys and values are stored in the cache's
/// layer in the cache's types (F16, Q8_0, Q4_0), quantized as by the CPU's cache; queries, times
/// query_scale() and their temperature, go to `queries` [token][heads][head_dim]. head_dim: a
/// multiple of 8 up to 512, and of the types' blocks. All pointers are to GPU memory. Throws
/// CudaFailure.
void rope_and_store(const Stream& stream, const NewTokenInputs& inputs, const Cache& cache,
                    int layer, int tokens, const StepRows& rows, __half* queries);

}  // namespace rigcast::engine::cuda
